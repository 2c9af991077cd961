package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// An operation is one line of a history: what a client asked of one entity, and what it was told.
type operation struct {
	Kind   string `json:"kind"`
	Entity string `json:"entity"`
	Client int    `json:"client"`
	// When it was asked and when the answer had been read, in nanoseconds since the history began.
	Call   int64  `json:"call"`
	Return *int64 `json:"return"`
	Asked  asked  `json:"asked"`
	// Nil where nobody knows whether it was done.
	Told *told `json:"told"`
}

// What was asked; `Do` says which of the other fields count.
type asked struct {
	Do      string   `json:"do"`
	Text    string   `json:"text,omitempty"`
	Fields  []string `json:"fields,omitempty"`
	Title   string   `json:"title,omitempty"`
	Mark    string   `json:"mark,omitempty"`
	Status  string   `json:"status,omitempty"`
	Sender  string   `json:"sender,omitempty"`
	Branch  string   `json:"branch,omitempty"`
	Number  int      `json:"number,omitempty"`
	After   *int     `json:"after,omitempty"`
	IfMatch string   `json:"if_match,omitempty"`
}

// What was told; a refusal has its code and nothing else.
type told struct {
	Code    string   `json:"code,omitempty"`
	Tag     string   `json:"tag,omitempty"`
	Shown   *shown   `json:"shown,omitempty"`
	Absent  bool     `json:"absent,omitempty"`
	Number  int      `json:"number,omitempty"`
	Text    string   `json:"text,omitempty"`
	Fields  []string `json:"fields,omitempty"`
	Version *item    `json:"version,omitempty"`
	Total   int      `json:"total,omitempty"`
	Items   []item   `json:"items,omitempty"`
}

// The fields of a conversation or of a document that are read of it, alone and in lists.
type shown struct {
	Status   string `json:"status,omitempty"`
	Messages int    `json:"messages,omitempty"`
	Mark     string `json:"mark,omitempty"`
	Title    string `json:"title,omitempty"`
	Number   int    `json:"number,omitempty"`
	Version  string `json:"version,omitempty"`
}

// One entry of a list: a message, a revision, an event or a version.
type item struct {
	Number  int      `json:"number,omitempty"`
	Kind    string   `json:"kind,omitempty"`
	Text    string   `json:"text,omitempty"`
	Status  string   `json:"status,omitempty"`
	Mark    string   `json:"mark,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	ID      string   `json:"id,omitempty"`
	Branch  string   `json:"branch,omitempty"`
	Parents []string `json:"parents,omitempty"`
}

// Whether two events are the same; nothing else has these fields.
func sameEvent(one, other item) bool {
	same := one.Number == other.Number && one.Kind == other.Kind && one.Text == other.Text
	return same && one.Status == other.Status && one.Mark == other.Mark && one.Reason == other.Reason
}

// The operations that change nothing.
var reads = []string{"get", "messages", "message", "revisions", "events", "version", "versions", "listed"}

func (o operation) reads() bool { return slices.Contains(reads, o.Asked.Do) }

// When it had been answered; what never was may have been done at any time.
func (o operation) returned() int64 {
	if o.Return == nil {
		return math.MaxInt64
	}
	return *o.Return
}

// Reads a history and divides it by entity; within each the operations keep their order.
func readHistory(input io.Reader) (map[string][]operation, error) {
	entities := map[string][]operation{}
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, 16<<20)
	for number := 1; lines.Scan(); number++ {
		var read operation
		if err := json.Unmarshal(lines.Bytes(), &read); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if read.Return != nil && *read.Return < read.Call {
			return nil, fmt.Errorf("line %d: it returned before it was called", number)
		}
		if (read.Return == nil) != (read.Told == nil) {
			return nil, fmt.Errorf("line %d: an answer has its time, an unknown outcome has none", number)
		}
		key := read.Kind + " " + read.Entity
		entities[key] = append(entities[key], read)
	}
	return entities, lines.Err()
}

// Decides what the reads of one entity say about its writes of unknown outcome, so that the search
// need not guess it: one whose mark is read somewhere was done before that read had returned; one
// whose mark is read nowhere was not, for every history ends with reads of everything. What leaves no
// mark stays open.
func settle(operations []operation) []operation {
	firstRead := map[string]int64{}
	for _, each := range operations {
		for _, mark := range each.marksRead() {
			if held, ok := firstRead[mark]; !ok || each.returned() < held {
				firstRead[mark] = each.returned()
			}
		}
	}
	var settled []operation
	for _, each := range operations {
		if each.Told == nil {
			end, found := firstRead[each.mark()]
			switch {
			case each.reads() || each.mark() != "" && !found:
				continue
			case found && end > each.Call:
				each.Return = &end
			}
		}
		settled = append(settled, each)
	}
	return settled
}

// What nothing else in the history says; empty where the operation leaves no such thing.
func (o operation) mark() string {
	switch o.Asked.Do {
	case "send", "edit":
		return o.Asked.Text
	default:
		return o.Asked.Mark
	}
}

// The marks that a read shows.
func (o operation) marksRead() []string {
	if o.Told == nil || !o.reads() {
		return nil
	}
	marks := append([]string{o.Told.Text}, o.Told.Fields...)
	for _, each := range o.Told.Items {
		marks = append(marks, each.Text, each.Mark, each.Reason)
	}
	if o.Told.Version != nil {
		marks = append(marks, o.Told.Version.Mark)
	}
	if o.Told.Shown != nil {
		marks = append(marks, o.Told.Shown.Mark)
	}
	return marks
}

// What reads say of the entries of one entity's log (the events of a conversation, the versions of a
// document), by their numbers. No order of the writes explains these reads unless it leads to just
// these entries, so the search can leave any other order at once.
type entries map[int]entry

type entry struct {
	item
	fields []string
}

func entriesRead(operations []operation) entries {
	read := entries{}
	note := func(shown item, fields []string) {
		if held, ok := read[shown.Number]; !ok || held.fields == nil {
			read[shown.Number] = entry{shown, fields}
		}
	}
	for _, each := range operations {
		if each.Told == nil {
			continue
		}
		switch each.Asked.Do {
		case "events", "versions":
			for _, shown := range each.Told.Items {
				note(shown, nil)
			}
		case "version":
			if each.Told.Version != nil {
				note(*each.Told.Version, each.Told.Fields)
			}
		}
	}
	return read
}

// The history as it stood at an instant: what had not been answered by then is open, and reads that
// had not are left out.
func until(operations []operation, end int64) []operation {
	var before []operation
	for _, each := range operations {
		if each.Call > end {
			continue
		}
		if each.returned() > end {
			if each.reads() {
				continue
			}
			each.Return, each.Told = nil, nil
		}
		before = append(before, each)
	}
	return before
}
