package main

import "hash/fnv"

// What is known of the opaque words of one entity (its tags, its versions' identifiers): a list that
// is shared by states and never changed. Each thing has another word at each revision, and only then.
type tokens struct {
	thing, revision int
	word            string
	before          *tokens
	// Over all of them, in any order.
	digest uint64
}

// Takes in that this is the word of a thing at a revision: false if that is known to be another, or
// the word to be that of another revision. An empty word says nothing.
func (t *tokens) bind(thing, revision int, word string) (*tokens, bool) {
	if word == "" {
		return t, true
	}
	for each := t; each != nil; each = each.before {
		if each.thing == thing && (each.revision == revision || each.word == word) {
			return t, each.revision == revision && each.word == word
		}
	}
	bound := &tokens{thing: thing, revision: revision, word: word, before: t}
	bound.digest = digest(0, "word", number(thing), number(revision), word)
	if t != nil {
		bound.digest ^= t.digest
	}
	return bound, true
}

// Whether a condition may name something else than the present revision.
func (t *tokens) mayFail(thing, revision int, word string) bool {
	for each := t; each != nil; each = each.before {
		if each.thing == thing && each.revision == revision {
			return each.word != word
		}
	}
	return word != ""
}

func (t *tokens) sum() uint64 {
	if t == nil {
		return 0
	}
	return t.digest
}

// A number that stands for everything that led to a state: equal states have equal ones, and unequal
// ones differ, but for chance (2 to the power of -64).
func digest(before uint64, words ...string) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(number(int(before))))
	for _, word := range words {
		hash.Write([]byte(word))
		hash.Write([]byte{0})
	}
	return hash.Sum64()
}
