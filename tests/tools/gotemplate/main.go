// Prints the test vectors of vmcp-gotemplate: templates with the results of Go's own text/template.
//
//	cd tests/tools/gotemplate && go run . > ../../../services/gotemplate/tests/it/vectors.json
//
// With a number and a seed, it prints vectors of templates that it makes at random. VMCP_GOTEMPLATE_VECTORS names their file
// to the test templates_render_as_in_go.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/template"
)

// Data of all vectors.
const data = `{
	"s": "héllo \"w\"\n", "word": "word", "e": "", "space": "a b&c=d/é", "i": 7, "f": 1.5, "neg": -3.25, "z": 0,
	"big": 1e21, "small": 1e-7, "n": null, "t": true, "b": false,
	"list": ["a", 1, 2.5, true, null, {"k": "v"}, [1]], "strs": ["x", "y", "z"], "nums": [3, 1, 2],
	"el": [], "map": {"b": 2, "a": "x", "c": null}, "em": {}, "deep": {"a": {"b": {"c": "d"}}},
	"html": "<a href='x'>&\u2028\u0001\u007f\\", "doc": "{\"a\": [1, {\"b\": null}], \"c\": \"é\"}",
	"my-id": {"output": {"x": "y"}}, "people": [{"name": "Ann", "age": 30}, {"name": "Bob", "age": 4.5}],
	"tree": {"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]},
	"nulls": [null, null], "emoji": "😀\u200bé\ufeff", "sep": "%"
}`

// Integers besides the data, whose numbers are floating-point numbers.
var integers = map[string]int{"int": 42, "negint": -7, "zero": 0}

// vector is one template with its result.
type vector struct {
	Template string  `json:"template"`
	Output   *string `json:"output,omitempty"`
	// Departure is the output of vmcp-gotemplate, if it differs from Go's.
	Departure *string `json:"departure,omitempty"`
	// Error is "parse" or "execution".
	Error string `json:"error,omitempty"`
}

var functions = template.FuncMap{
	"json": func(value any) (string, error) {
		text, err := json.Marshal(value)
		return string(text), err
	},
	"fromJson": func(text string) (any, error) {
		var value any
		err := json.Unmarshal([]byte(text), &value)
		return value, err
	},
	"quote": strconv.Quote,
}

func main() {
	root := map[string]any{}
	check(json.Unmarshal([]byte(data), &root))
	for name, value := range integers {
		root[name] = value
	}
	seen := map[string]bool{}
	var lines []string
	all := cases()
	if len(os.Args) > 2 {
		count, err := strconv.Atoi(os.Args[1])
		check(err)
		seed, err := strconv.ParseInt(os.Args[2], 10, 64)
		check(err)
		all = randomCases(count, seed)
	}
	for _, c := range all {
		if seen[c.template] {
			continue
		}
		seen[c.template] = true
		if v, ok := result(c, root); ok {
			lines = append(lines, line(v))
		}
	}
	var compact bytes.Buffer
	check(json.Compact(&compact, []byte(data)))
	fmt.Printf("{\"data\": %s,\n\"integers\": %s,\n\"vectors\": [\n%s\n]}\n",
		compact.String(), line(integers), strings.Join(lines, ",\n"))
}

// result executes a case. It returns false if the output is too long.
func result(c testCase, root map[string]any) (vector, bool) {
	v := vector{Template: c.template}
	parsed, err := template.New("").Funcs(functions).Parse(c.template)
	if err != nil {
		v.Error = "parse"
		return v, true
	}
	var output limitedBuilder
	err = parsed.Execute(&output, root)
	if errors.Is(err, errTooLong) {
		fmt.Fprintln(os.Stderr, "skipped, because its output is too long:", c.template)
		return v, false
	}
	if err != nil {
		v.Error = "execution"
		return v, true
	}
	text := output.String()
	v.Output = &text
	if c.departure != "" {
		if c.departure == text {
			check(errors.New("not a departure: " + c.template))
		}
		v.Departure = &c.departure
	}
	return v, true
}

// limitedBuilder ends templates that recurse without end.
type limitedBuilder struct{ strings.Builder }

var errTooLong = errors.New("too long")

func (b *limitedBuilder) Write(text []byte) (int, error) {
	if b.Len() > 100_000 {
		return 0, errTooLong
	}
	return b.Builder.Write(text)
}

func line(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	check(encoder.Encode(value))
	return strings.TrimSpace(text.String())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
