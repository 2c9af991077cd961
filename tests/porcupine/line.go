package main

import (
	"encoding/json"
	"fmt"
)

// Longer answers are cut in the middle of a page.
const shownMax = 400

// An operation as a person reads it.
func line(each operation) string {
	end, told := "?", "unknown"
	if each.Return != nil {
		end = milliseconds(*each.Return)
	}
	if each.Told != nil {
		told = compact(each.Told)
	}
	return fmt.Sprintf("%3d %9s %9s  %s  %s", each.Client, milliseconds(each.Call), end, compact(each.Asked), told)
}

func milliseconds(nanoseconds int64) string { return fmt.Sprintf("%.2f", float64(nanoseconds)/1e6) }

func compact(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	if len(text) > shownMax {
		return string(text[:shownMax/2]) + " … " + string(text[len(text)-shownMax/2:])
	}
	return string(text)
}
