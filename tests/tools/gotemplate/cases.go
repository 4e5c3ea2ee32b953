package main

import "fmt"

// testCase is a template, with the output of vmcp-gotemplate if it departs from Go's.
type testCase struct {
	template  string
	departure string
}

// cases returns all cases. The tables are in the other files.
func cases() []testCase {
	var all []testCase
	for _, table := range [][]string{
		syntax, mistakes, values, control, variables, templates, functionCases, comparisons, elements, jsonCases, printing,
		formats, numbers,
	} {
		for _, template := range table {
			all = append(all, testCase{template: template})
		}
	}
	all = append(all, departures...)
	return append(all, directives()...)
}

// departures are whole numbers below 2^53, which print as integers, and those of JSON documents, which keep their digits.
var departures = []testCase{
	{"{{1e6}}", "1000000"},
	{"{{1e15}}", "1000000000000000"},
	{"{{1234567.0}}", "1234567"},
	{"{{print -1e9}}", "-1000000000"},
	{"{{printf \"%v\" 9007199254740991.0}}", "9007199254740991"},
	{"{{printf \"%12v|%-12v|%012v\" 1e6 1e6 1e6}}", "     1000000|1000000     |000001000000"},
	{"{{fromJson \"[1000000, {\\\"id\\\": 1700000000000}]\"}}", "[1000000 map[id:1700000000000]]"},
	{"{{printf \"%d\" 1e6}}", "%!d(float64=1000000)"},
	{"{{println 1e6 2e6}}", "1000000 2000000\n"},
	{"{{urlquery 1e6}}", "1000000"},
	{"{{fromJson \"9007199254740993\"}}", "9007199254740993"},
}

// directives returns a case for each verb, some flags and each type.
func directives() []testCase {
	operands := []string{
		".s", ".word", ".e", ".f", ".neg", ".z", ".i", ".big", ".small", ".int", ".negint", "0", ".t", ".n", "nil", ".missing",
		".strs", ".list", ".map", ".em", "'x'", "(index .word 0)", "0x1F600",
	}
	verbs := []string{"v", "d", "s", "q", "x", "X", "f", "g", "e", "t", "T", "c", "U", "b", "o", "y", "#v", "+v", "w"}
	var all []testCase
	for _, verb := range verbs {
		for _, operand := range operands {
			all = append(all, testCase{template: fmt.Sprintf("{{printf \"%%%s\" %s}}", verb, operand)})
		}
	}
	flags := []string{
		"%8", "%-8", "%08", "%+", "% ", "%#", "%.2", "%8.2", "%-8.2", "%08.2", "%+08", "%.0", "%+.1", "%#.3", "%-08", "% 08",
		"%+#", "%.12",
	}
	typed := map[string][]string{
		"d": {".int", ".negint", "0"}, "x": {".int", ".negint", ".word", ".f", ".s"}, "X": {".int", ".word", ".f"},
		"o": {".int", "0"}, "b": {".int", "0", ".f"}, "O": {".int"}, "U": {".int", "0x1F600"}, "c": {".int", "0x1F600"},
		"q": {".s", ".word", "0x1F600", ".emoji", ".html"}, "s": {".s", ".word", ".emoji", ".strs"}, "v": {".f", ".word", ".strs", ".map", ".n", ".t"},
		"f": {".f", ".neg", ".z", ".big", ".small", "1e300"}, "F": {".neg"}, "e": {".f", ".neg", ".z", ".big"}, "E": {".f"},
		"g": {".f", ".neg", ".z", ".big", ".small", "123456789.0", "0.00012345"}, "G": {".big"}, "t": {".t"},
	}
	for _, verb := range []string{"d", "x", "X", "o", "b", "O", "U", "c", "q", "s", "v", "f", "F", "e", "E", "g", "G", "t"} {
		for _, operand := range typed[verb] {
			for _, flag := range flags {
				template := fmt.Sprintf("{{printf \"%s%s|\" %s}}", flag, verb, operand)
				all = append(all, testCase{template: template})
			}
		}
	}
	return all
}
