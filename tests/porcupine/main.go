// Command porcupine judges a history of what clients asked of conversations and documents and what
// they were told: whether it can be explained by each having been done at one instant between call
// and answer, in one order per entity, as the interface's contract says (linearizability).
//
// Usage: porcupine [-timeout 60s] FILE. Exit code 0: it can be explained; 1: an entity's can't, and
// the smallest such entity's history up to the answer that can't be explained is printed; 2: not
// known, because the time was up or the history could not be read.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
)

// How many operations before the one that can't be explained are printed.
const printedMax = 60

// The state of an entity in a model.
type state interface {
	// Whether the operation may have been answered so in this state, and the state after it.
	step(do asked, told *told) (bool, state)
	same(other state) bool
	sum() uint64
}

// The state before anything happened to an entity, of whose log this was read.
func initial(kind string, read entries) state {
	if kind == "document" {
		return document{read: read}
	}
	return conversation{read: read}
}

func isRead(do asked) bool { return slices.Contains(reads, do.Do) }

func number(value int) string { return strconv.Itoa(value) }

func model(kind string, read entries) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial(kind, read) },
		Step: func(before, input, output any) (bool, any) {
			return before.(state).step(input.(asked), output.(*told))
		},
		Equal: func(one, other any) bool { return one.(state).same(other.(state)) },
		Hash:  func(one any) uint64 { return one.(state).sum() },
	}
}

func check(operations []operation, timeout time.Duration) porcupine.CheckResult {
	var history []porcupine.Operation
	for _, each := range operations {
		history = append(history, porcupine.Operation{
			ClientId: each.Client, Input: each.Asked, Call: each.Call, Output: each.Told, Return: each.returned(),
		})
	}
	return porcupine.CheckOperationsTimeout(model(operations[0].Kind, entriesRead(operations)), history, timeout)
}

// The instant of the answer that can't be explained any more: everything up to the one before it can.
func unexplained(operations []operation, timeout time.Duration) int64 {
	var ends []int64
	for _, each := range operations {
		if each.Return != nil {
			ends = append(ends, *each.Return)
		}
	}
	slices.Sort(ends)
	first, _ := slices.BinarySearchFunc(ends, true, func(end int64, _ bool) int {
		if check(until(operations, end), timeout) == porcupine.Illegal {
			return 0
		}
		return -1
	})
	return ends[min(first, len(ends)-1)]
}

func show(operations []operation, end int64) {
	operations = until(operations, end)
	slices.SortStableFunc(operations, func(one, other operation) int { return int(one.Call - other.Call) })
	if left := len(operations) - printedMax; left > 0 {
		fmt.Printf("(%d earlier operations are left out)\n", left)
		operations = operations[left:]
	}
	for _, each := range operations {
		here := ""
		if each.returned() == end {
			here = "   <-- no order explains this answer"
		}
		fmt.Println(line(each) + here)
	}
}

func main() {
	log.SetFlags(0)
	timeout := flag.Duration("timeout", time.Minute, "how long each entity is searched")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Print("usage: porcupine [-timeout 60s] FILE")
		os.Exit(2)
	}
	file, err := os.Open(flag.Arg(0))
	if err != nil {
		log.Print(err)
		os.Exit(2)
	}
	entities, err := readHistory(file)
	if err == nil && len(entities) == 0 {
		err = fmt.Errorf("there is nothing to judge")
	}
	if err != nil {
		log.Printf("%s: %v", flag.Arg(0), err)
		os.Exit(2)
	}
	os.Exit(judge(entities, *timeout))
}

// Judges each entity by itself, tells the verdicts and gives the exit code.
func judge(entities map[string][]operation, timeout time.Duration) int {
	var names []string
	for name := range entities {
		names = append(names, name)
	}
	slices.Sort(names)
	code, smallest := 0, ""
	for _, name := range names {
		begun, operations := time.Now(), settle(entities[name])
		result := porcupine.Ok
		if len(operations) > 0 {
			result = check(operations, timeout)
		}
		fmt.Printf("%s: %d operations, %s after %v\n", name, len(operations), words[result], time.Since(begun).Round(time.Millisecond))
		switch {
		case result == porcupine.Illegal:
			code = 1
			if smallest == "" || len(operations) < len(settle(entities[smallest])) {
				smallest = name
			}
		case result == porcupine.Unknown && code == 0:
			code = 2
		}
	}
	if smallest != "" {
		operations := settle(entities[smallest])
		fmt.Printf("\n%s, by the time of calling (client, ms of call and answer, what was asked, what was told):\n", smallest)
		show(operations, unexplained(operations, timeout))
	}
	return code
}

var words = map[porcupine.CheckResult]string{
	porcupine.Ok:      "linearizable",
	porcupine.Illegal: "NOT linearizable",
	porcupine.Unknown: "unknown, the time was up",
}
