package main

import "slices"

// How many entries a page has at most; every reader asks for that many.
const pageMax = 100

// A conversation as the contract has it. States share what they hold and are never changed.
type conversation struct {
	exists bool
	status string
	// The caller's mark in its metadata.
	mark     string
	messages []*message
	log      []item
	tokens   *tokens
	digest   uint64
	// What was read of the log, and whether this state's is another.
	read         entries
	contradicted bool
}

// A message, with the texts that it had before.
type message struct {
	text    string
	edits   int
	earlier *message
}

// The thing of which the conversation's own tag is the word; a message's is its number.
const itself = 0

func (c conversation) same(other state) bool {
	that := other.(conversation)
	return c.digest == that.digest && c.tokens.sum() == that.tokens.sum()
}

func (c conversation) sum() uint64 { return c.digest ^ c.tokens.sum() }

func (c conversation) happened(event item) conversation {
	event.Number = len(c.log) + 1
	if read, ok := c.read[event.Number]; ok && !sameEvent(read.item, event) {
		c.contradicted = true
	}
	c.log = append(slices.Clip(c.log), event)
	c.digest = digest(c.digest, event.Kind, number(event.Number), event.Text, event.Status, event.Mark, event.Reason)
	return c
}

// An event that shows the conversation as it has become.
func (c conversation) became(status, reason string) conversation {
	kind := "conversation.updated"
	if status == "closed" && c.status != "closed" {
		kind = "conversation.closed"
	}
	c.status = status
	return c.happened(item{Kind: kind, Status: status, Mark: c.mark, Reason: reason})
}

func (c conversation) added(text string) conversation {
	c.messages = append(slices.Clip(c.messages), &message{text: text})
	return c.happened(item{Kind: "message.created", Text: text})
}

// What becomes of a write, or the code with which it is refused.
func (c conversation) write(do asked) (after conversation, refusal string) {
	switch do.Do {
	case "create":
		return c.created(do), ""
	case "send":
		return c.sent(do)
	case "edit":
		return c.edited(do), ""
	case "set":
		return c.set(do)
	case "close":
		if c.status == "closed" {
			return c, ""
		}
		return c.became("closed", do.Mark), ""
	case "reopen":
		if c.status != "closed" {
			return c, ""
		}
		return c.became("active", ""), ""
	default:
		return c, "no such operation"
	}
}

func (c conversation) created(do asked) conversation {
	c.exists, c.status = true, "active"
	c = c.happened(item{Kind: "conversation.created", Status: "active"})
	return c.added(do.Text)
}

// A customer's message makes the conversation active; an agent's finds a closed one closed.
func (c conversation) sent(do asked) (conversation, string) {
	if do.Sender != "customer" && c.status == "closed" {
		return c, "conversation_closed"
	}
	c = c.added(do.Text)
	if do.Sender == "customer" && c.status != "active" {
		c = c.became("active", "")
	}
	return c, ""
}

func (c conversation) edited(do asked) conversation {
	held := c.messages[do.Number-1]
	c.messages = slices.Clone(c.messages)
	c.messages[do.Number-1] = &message{text: do.Text, edits: held.edits + 1, earlier: held}
	return c.happened(item{Kind: "message.updated", Text: do.Text})
}

// Sets the mark, and the status where one is given.
func (c conversation) set(do asked) (conversation, string) {
	status := c.status
	if do.Status != "" {
		status = do.Status
	}
	if c.status == "closed" && status == "pending" {
		return c, "invalid_transition"
	}
	c.mark = do.Mark
	return c.became(status, ""), ""
}

// The thing that a condition is about, and its revision.
func (c conversation) concerned(do asked) (thing, revision int) {
	switch do.Do {
	case "edit", "message":
		return do.Number, c.messages[do.Number-1].edits
	default:
		return itself, len(c.log)
	}
}

func (c conversation) step(do asked, told *told) (bool, state) {
	if !c.exists && do.Do != "create" {
		return told == nil || do.Do == "listed" && told.Absent || told.Code == "not_found", c
	}
	if c.exists && do.Do == "create" || do.Number > len(c.messages) {
		return false, c
	}
	if isRead(do) {
		return c.answered(do, told)
	}
	if do.IfMatch != "" {
		thing, revision := c.concerned(do)
		if told != nil && told.Code == "precondition_failed" {
			return c.tokens.mayFail(thing, revision, do.IfMatch), c
		}
		known, may := c.tokens.bind(thing, revision, do.IfMatch)
		if !may {
			return told == nil, c
		}
		c.tokens = known
	}
	after, refusal := c.write(do)
	if told == nil || after.contradicted {
		return !after.contradicted, after
	}
	if told.Code != "" || refusal != "" {
		return told.Code == refusal, c
	}
	return after.answers(do, told)
}

// Whether the answer to a write shows what it led to.
func (c conversation) answers(do asked, told *told) (bool, state) {
	ok := true
	switch do.Do {
	case "send":
		ok = told.Number == len(c.messages) && told.Text == do.Text
		do.Number = told.Number
	case "edit":
		ok = told.Number == do.Number && told.Text == do.Text
	default:
		ok = told.Shown != nil && c.shows(*told.Shown)
	}
	if !ok {
		return false, c
	}
	thing, revision := itself, len(c.log)
	if do.Do == "send" || do.Do == "edit" {
		thing, revision = do.Number, c.messages[do.Number-1].edits
	}
	c.tokens, ok = c.tokens.bind(thing, revision, told.Tag)
	return ok, c
}

func (c conversation) shows(shown shown) bool {
	return shown.Status == c.status && shown.Messages == len(c.messages) && shown.Mark == c.mark
}

func (c conversation) answered(do asked, told *told) (bool, state) {
	ok := false
	switch {
	case told == nil:
		return true, c
	case do.Do == "events":
		return c.hasEvents(*do.After, told), c
	case told.Code == "not_modified":
		ok = true
	case told.Code != "":
		return false, c
	case do.Do == "get":
		ok = c.shows(*told.Shown)
	case do.Do == "listed":
		return c.isListed(do, told), c
	case do.Do == "message":
		held := c.messages[do.Number-1]
		ok = told.Number == do.Number && told.Text == held.text
	case do.Do == "revisions":
		return c.hasRevisions(c.messages[do.Number-1], told), c
	case do.Do == "messages":
		return c.hasMessages(do, told), c
	}
	if !ok {
		return false, c
	}
	thing, revision := c.concerned(do)
	c.tokens, ok = c.tokens.bind(thing, revision, told.Tag)
	return ok, c
}

// A list shows each conversation that its filter lets through, and no other.
func (c conversation) isListed(do asked, told *told) bool {
	if do.Status != "" && do.Status != c.status {
		return told.Absent
	}
	return !told.Absent && c.shows(*told.Shown)
}

// A page of messages: what follows a number, or without one the last ones.
func (c conversation) hasMessages(do asked, told *told) bool {
	from, end := max(0, len(c.messages)-pageMax), len(c.messages)
	if do.After != nil {
		from = min(*do.After, end)
		end = min(from+pageMax, end)
	}
	if told.Total != len(c.messages) || len(told.Items) != end-from {
		return false
	}
	for place, held := range c.messages[from:end] {
		if told.Items[place].Number != from+place+1 || told.Items[place].Text != held.text {
			return false
		}
	}
	return true
}

// The events that follow one, oldest first, and how many follow; none follow one that is not there.
func (c conversation) hasEvents(after int, told *told) bool {
	if after > len(c.log) || told.Code != "" {
		return after > len(c.log) && told.Code == "invalid_request"
	}
	end := min(after+pageMax, len(c.log))
	return told.Total == len(c.log)-after && slices.EqualFunc(told.Items, c.log[after:end], sameEvent)
}

// The texts that a message had before, newest first.
func (c conversation) hasRevisions(held *message, told *told) bool {
	if told.Total != held.edits || len(told.Items) != min(held.edits, pageMax) {
		return false
	}
	for _, revision := range told.Items {
		held = held.earlier
		if revision.Text != held.text {
			return false
		}
	}
	return true
}
