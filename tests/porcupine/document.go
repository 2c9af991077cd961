package main

import (
	"slices"
	"strings"
)

// A document as the contract has it. States share what they hold and are never changed. Its text is
// a row of fields that stand so far from each other that a merge takes each by itself.
type document struct {
	exists, deleted bool
	title           string
	versions        []*version
	// The number of the main branch's newest version, and how often what is shown of it changed.
	head, revision int
	tokens         *tokens
	digest         uint64
	// What was read of the versions, and whether this state's are others.
	read         entries
	contradicted bool
}

type version struct {
	number int
	// Empty on the main branch.
	branch  string
	parents []int
	message string
	fields  []string
}

// The things that have words: the document its tag, and each version its identifier.
const (
	theDocument = iota
	theVersions
)

func (d document) same(other state) bool {
	that := other.(document)
	return d.digest == that.digest && d.tokens.sum() == that.tokens.sum()
}

func (d document) sum() uint64 { return d.digest ^ d.tokens.sum() }

// The newest version of a branch.
func (d document) tip(branch string) *version {
	for _, each := range slices.Backward(d.versions) {
		if each.branch == branch {
			return each
		}
	}
	return nil
}

func (d document) added(new version) document {
	new.number = len(d.versions) + 1
	d.versions = append(slices.Clip(d.versions), &new)
	if read, ok := d.read[new.number]; ok {
		same := read.Branch == new.branch && read.Mark == new.message && len(read.Parents) == len(new.parents)
		d.contradicted = !same || read.fields != nil && !slices.Equal(read.fields, new.fields)
	}
	if new.branch == "" {
		d.head = new.number
		d.revision++
	}
	words := append([]string{"version", new.branch, new.message, numbers(new.parents)}, new.fields...)
	d.digest = digest(d.digest, words...)
	return d
}

func (d document) titled(title string) document {
	if title != "" {
		d.title = title
		d.digest = digest(d.digest, "title", title)
	}
	return d
}

// In the bin or out of it: both change the tag.
func (d document) moved(deleted bool) document {
	d.deleted = deleted
	d.revision++
	d.digest = digest(d.digest, "moved")
	return d
}

// What becomes of a write, or the code with which it is refused.
func (d document) write(do asked) (after document, refusal string) {
	switch do.Do {
	case "create":
		d.exists = true
		return d.titled(do.Title).added(version{fields: do.Fields}), ""
	case "put":
		return d.titled(do.Title).added(version{parents: []int{d.head}, fields: do.Fields}), ""
	case "add":
		parent := d.head
		if tip := d.tip(do.Branch); tip != nil {
			parent = tip.number
		}
		return d.added(version{branch: do.Branch, parents: []int{parent}, message: do.Mark, fields: do.Fields}), ""
	case "merge":
		return d.merged(do)
	case "delete":
		return d.moved(true), ""
	case "restore":
		if !d.deleted {
			return d, ""
		}
		return d.moved(false), ""
	default:
		return d, "no such operation"
	}
}

// Merges a branch into the head, field by field.
func (d document) merged(do asked) (document, string) {
	source := d.tip(do.Branch)
	if source == nil {
		return d, "invalid_request"
	}
	if d.ancestors(d.head)[source.number] {
		return d, ""
	}
	base, ours := d.base(d.head, source.number).fields, d.versions[d.head-1].fields
	fields := slices.Clone(ours)
	for place, theirs := range source.fields {
		switch {
		case ours[place] == theirs || theirs == base[place]:
		case ours[place] == base[place]:
			fields[place] = theirs
		default:
			return d, "merge_conflict"
		}
	}
	return d.added(version{parents: []int{d.head, source.number}, message: do.Mark, fields: fields}), ""
}

// A version and all that it came from.
func (d document) ancestors(number int) map[int]bool {
	found := map[int]bool{}
	for left := []int{number}; len(left) > 0; {
		next := left[len(left)-1]
		left = left[:len(left)-1]
		if !found[next] {
			found[next] = true
			left = append(left, d.versions[next-1].parents...)
		}
	}
	return found
}

// The nearest common ancestor. Branches are merged into the main one only, so there is one, and it is
// the newest that both have.
func (d document) base(head, source int) *version {
	ours, theirs := d.ancestors(head), d.ancestors(source)
	for _, each := range slices.Backward(d.versions) {
		if ours[each.number] && theirs[each.number] {
			return each
		}
	}
	return d.versions[0]
}

func (d document) step(do asked, told *told) (bool, state) {
	if do.Do == "create" {
		if d.exists {
			return false, d
		}
	} else if !d.exists || d.deleted && do.Do != "restore" {
		switch {
		case do.Do == "listed" && told != nil:
			binned := d.exists && do.Status == "deleted"
			return told.Absent != binned && (!binned || d.shows(told)), d
		case told == nil:
			return true, d
		default:
			return told.Code == "not_found", d
		}
	}
	if isRead(do) {
		return d.answered(do, told)
	}
	if do.IfMatch != "" {
		if told != nil && told.Code == "precondition_failed" {
			return d.tokens.mayFail(theDocument, d.revision, do.IfMatch), d
		}
		known, may := d.tokens.bind(theDocument, d.revision, do.IfMatch)
		if !may {
			return told == nil, d
		}
		d.tokens = known
	}
	after, refusal := d.write(do)
	if told == nil || after.contradicted {
		return !after.contradicted, after
	}
	if told.Code != "" || refusal != "" {
		return told.Code == refusal, d
	}
	if do.Do == "delete" {
		return true, after
	}
	if do.Do == "add" || do.Do == "merge" {
		return after.answersVersion(d, told)
	}
	if !after.shows(told) {
		return false, d
	}
	return after.named(told)
}

// What is read of the head, but for its words.
func (d document) shows(told *told) bool {
	if told.Shown == nil || told.Shown.Number != d.head || told.Shown.Title != d.title {
		return false
	}
	return told.Fields == nil || slices.Equal(told.Fields, d.versions[d.head-1].fields)
}

// Takes in the words of what is shown.
func (d document) named(told *told) (bool, state) {
	ok := false
	if d.tokens, ok = d.tokens.bind(theDocument, d.revision, told.Tag); ok && told.Shown != nil {
		d.tokens, ok = d.tokens.bind(theVersions, d.head, told.Shown.Version)
	}
	return ok, d
}

// Whether the answer shows the version that was added; without one, that there was nothing to merge.
func (d document) answersVersion(before document, told *told) (bool, state) {
	if told.Version == nil {
		return len(before.versions) == len(d.versions), d
	}
	if len(before.versions) == len(d.versions) {
		return false, d
	}
	return d.isVersion(*told.Version, nil)
}

// Whether what is shown of a version is true.
func (d document) isVersion(shown item, fields []string) (bool, state) {
	if shown.Number < 1 || shown.Number > len(d.versions) {
		return false, d
	}
	held := d.versions[shown.Number-1]
	ok := shown.Branch == held.branch && shown.Mark == held.message && len(shown.Parents) == len(held.parents)
	if !ok || fields != nil && !slices.Equal(fields, held.fields) {
		return false, d
	}
	for place, parent := range held.parents {
		if d.tokens, ok = d.tokens.bind(theVersions, parent, shown.Parents[place]); !ok {
			return false, d
		}
	}
	d.tokens, ok = d.tokens.bind(theVersions, shown.Number, shown.ID)
	return ok, d
}

func (d document) answered(do asked, told *told) (bool, state) {
	switch {
	case told == nil:
		return true, d
	case do.Do == "version" && do.Number > len(d.versions):
		return told.Code == "not_found", d
	case told.Code == "not_modified":
		return d.named(told)
	case told.Code != "":
		return false, d
	case do.Do == "listed":
		if do.Status == "deleted" {
			return told.Absent, d
		}
		if told.Absent || !d.shows(told) {
			return false, d
		}
		return d.named(told)
	case do.Do == "get":
		if !d.shows(told) {
			return false, d
		}
		return d.named(told)
	case do.Do == "version":
		if told.Version == nil || told.Version.Number != do.Number {
			return false, d
		}
		return d.isVersion(*told.Version, told.Fields)
	default:
		return d.hasVersions(told)
	}
}

// The newest versions, newest first, and how many there are.
func (d document) hasVersions(told *told) (bool, state) {
	if told.Total != len(d.versions) || len(told.Items) != min(len(d.versions), pageMax) {
		return false, d
	}
	for place, shown := range told.Items {
		if shown.Number != len(d.versions)-place {
			return false, d
		}
		ok, after := d.isVersion(shown, nil)
		if !ok {
			return false, d
		}
		d = after.(document)
	}
	return true, d
}

func numbers(of []int) string {
	var words []string
	for _, each := range of {
		words = append(words, number(each))
	}
	return strings.Join(words, " ")
}
