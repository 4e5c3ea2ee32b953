package main

import (
	"fmt"
	"math"
	"math/rand"
	"regexp"
	"strconv"
	"strings"
)

// unsupported matches functions that vmcp-gotemplate does not have, and parts of texts that can cut a character.
var unsupported = regexp.MustCompile(`\b(js|html|call)\b|slice(.|\n)*(é|\.s\b)|(é|\.s\b)(.|\n)*slice`)

// generator makes templates at random. Whole numbers from 1e6 and positions above the length of lists do not occur,
// because vmcp-gotemplate departs from Go there.
type generator struct {
	*rand.Rand
	variables []string
	// isDefinition prevents recursion without end.
	isDefinition bool
}

// randomCases returns as many templates as asked for. Some of them are damaged, for the errors of the parser.
func randomCases(count int, seed int64) []testCase {
	var all []testCase
	for i := 0; i < count; i++ {
		g := generator{Rand: rand.New(rand.NewSource(seed + int64(i)))}
		if g.Intn(3) == 0 {
			all = append(all, testCase{template: g.printed()})
			continue
		}
		template := g.list(3)
		if g.Intn(3) == 0 {
			g.isDefinition = true
			template += "{{define \"t\"}}" + g.list(1) + "{{end}}"
		}
		for g.Intn(4) == 0 {
			template = g.damage(template)
		}
		if !unsupported.MatchString(template) {
			all = append(all, testCase{template: template})
		}
	}
	return all
}

// printed prints a random number and a random text.
func (g *generator) printed() string {
	number := math.Float64frombits(g.Uint64())
	if g.Intn(2) == 0 {
		number = float64(g.Intn(2_000_000)-1_000_000) / math.Pow10(g.Intn(9))
	}
	if math.IsNaN(number) || math.IsInf(number, 0) {
		number = 0.5
	}
	var text strings.Builder
	for n := g.Intn(8); n > 0; n-- {
		// Characters of Unicode 15, whose version is that of Go.
		text.WriteRune([]rune{rune(g.Intn(0x80)), rune(g.Intn(0x590)), rune(0x1f600 + g.Intn(64)), rune(0xe000 + g.Intn(32)), 0xfeff}[g.Intn(5)])
	}
	literal := strconv.FormatFloat(number, g.pick("g", "e")[0], -1, 64)
	if !strings.ContainsAny(literal, ".e") {
		literal += ".0"
	}
	quoted := strconv.Quote(text.String())
	flags := g.pick("", "", "-", "+", "#", "0", " ", "+#", "-0", "# ", "+0") + g.pick("", "", "5", "12", "30") + g.pick("", "", ".2", ".0", ".10", ".17", ".3", ".25")
	switch g.Intn(4) {
	case 0:
		return fmt.Sprintf("{{json %s}}|{{json (fromJson %q)}}|{{printf \"%%g %%e\" %s %s}}", literal, literal, literal, literal)
	case 1:
		return fmt.Sprintf("{{printf \"%%%s%s|\" %s}}", flags, g.pick("f", "g", "e", "G", "E", "x", "X", "b", "F"), literal)
	case 2:
		return fmt.Sprintf("{{printf \"%%%s%s|\" %s}}", flags, g.pick("d", "x", "X", "o", "O", "b", "c", "v"), strconv.Itoa(int(g.Uint64()>>(g.Intn(64)))*(1-2*g.Intn(2))))
	default:
		return fmt.Sprintf("{{quote %s}}{{json %s}}{{urlquery %s}}{{printf \"%%%s%s|\" %s}}{{len %s}}", quoted, quoted, quoted, flags, g.pick("s", "q", "x", "X", "v"), quoted, quoted)
	}
}

func (g *generator) pick(values ...string) string {
	return values[g.Intn(len(values))]
}

// damage removes, repeats or inserts some bytes.
func (g *generator) damage(template string) string {
	if len(template) < 4 {
		return template
	}
	start := g.Intn(len(template) - 2)
	end := start + 1 + g.Intn(min(6, len(template)-start-1))
	damaged := template[:start] + template[end:]
	if g.Intn(2) == 0 {
		damaged = template[:end] + template[start:]
	}
	if g.Intn(3) == 0 {
		damaged = template[:start] + g.pick("{{", "}}", "(", ")", "|", "$x", ".", " ", "-", "\"", "end", ":=", ",", "'") + template[start:]
	}
	return strings.ToValidUTF8(damaged, "?")
}

func (g *generator) list(depth int) string {
	outer := len(g.variables)
	var list strings.Builder
	for n := g.Intn(4); n >= 0; n-- {
		list.WriteString(g.node(depth))
	}
	g.variables = g.variables[:outer]
	return list.String()
}

func (g *generator) node(depth int) string {
	open, end := g.pick("{{", "{{", "{{- "), g.pick("}}", "}}", " -}}")
	if depth == 0 {
		return open + g.pipeline(1) + end
	}
	switch g.Intn(11) {
	case 0:
		return g.pick("text", " a ", "\n", "é", "{", "{{/* c */}}", "{{- /* c */ -}}")
	case 1:
		name := g.pick("$x", "$y", "$z")
		action := open + name + " := " + g.pipeline(2) + end
		g.variables = append(g.variables, name)
		return action
	case 2:
		return open + g.pick("$x", "$y", "$") + " = " + g.pipeline(2) + end
	case 3:
		return open + "if " + g.pipeline(2) + end + g.list(depth-1) + g.otherwise("if", depth) + "{{end}}"
	case 4:
		return open + "with " + g.pipeline(2) + end + g.list(depth-1) + g.otherwise("with", depth) + "{{end}}"
	case 5, 6:
		outer := len(g.variables)
		declared := g.pick("", "$x := ", "$x, $y := ", "$x = ")
		if strings.Contains(declared, ":=") {
			g.variables = append(g.variables, "$x", "$y")
		}
		loop := open + "range " + declared + g.pick(".list", ".strs", ".map", ".people", ".el", ".nums", "3", g.pipeline(2)) + end + g.list(depth-1)
		loop += g.pick("", "", "{{break}}", "{{continue}}", "{{if .}}{{break}}{{end}}") + g.pick("", "", "{{else}}"+g.list(depth-1)) + "{{end}}"
		g.variables = g.variables[:outer]
		return loop
	case 7:
		if g.isDefinition {
			return ""
		}
		return open + "template \"t\" " + g.pipeline(1) + end
	default:
		return open + g.pipeline(3) + end
	}
}

func (g *generator) otherwise(keyword string, depth int) string {
	switch g.Intn(4) {
	case 0:
		return "{{else}}" + g.list(depth-1)
	case 1:
		return "{{else " + keyword + " " + g.pipeline(1) + "}}" + g.list(depth-1)
	default:
		return ""
	}
}

func (g *generator) pipeline(depth int) string {
	pipeline := g.command(depth)
	for g.Intn(5) == 0 {
		pipeline += g.pick(" | ", "|") + g.pick(
			"print", "json", "len", "quote", "not", "printf \"%v-%v\" 1", "eq "+g.operand(0), "index .strs", "and "+g.operand(0),
			"or "+g.operand(0), "urlquery", "println 1", "fromJson", "slice .strs", "lt 1")
	}
	return pipeline
}

func (g *generator) command(depth int) string {
	if depth == 0 {
		return g.operand(0)
	}
	function := g.pick("print", "println", "json", "len", "not", "quote", "urlquery", "fromJson")
	one, two := g.operand(depth-1), g.operand(depth-1)
	switch g.Intn(10) {
	case 0:
		return function + " " + one
	case 1:
		return g.pick("and", "or", "eq", "ne", "lt", "le", "gt", "ge", "print", "println") + " " + one + " " + two
	case 2:
		return "index " + g.pick(".list", ".strs", ".map", ".word", ".people", ".deep", one) + " " + g.key(two)
	case 3:
		return "slice " + g.pick(".list", ".strs", ".word", one) + " " + g.pick("0", "1", "2", "1 2", "0 1", "0 2 3", two)
	case 4:
		return "printf \"" + g.format() + "\" " + one + " " + two
	default:
		return g.operand(depth)
	}
}

func (g *generator) key(operand string) string {
	return g.pick("0", "1", "2", "\"a\"", "\"b\" \"c\"", "1 \"name\"", operand)
}

func (g *generator) format() string {
	var format strings.Builder
	for n := g.Intn(3); n >= 0; n-- {
		format.WriteString("%" + g.pick("", "", "-", "+", "#", "0", " ", "+#", "-0") + g.pick("", "", "5", "12", "*", "[1]", "[2]") +
			g.pick("", "", ".2", ".0", ".", ".*", ".10") + g.pick("v", "d", "s", "q", "x", "X", "f", "g", "e", "t", "T", "c", "U", "b", "o", "%", "z", ""))
		format.WriteString(g.pick("", "|", " a"))
	}
	return format.String()
}

func (g *generator) operand(depth int) string {
	if depth > 0 && g.Intn(3) == 0 {
		fields := g.pick("", "", ".a", ".name", ".b.c")
		return "(" + g.pipeline(depth-1) + ")" + fields
	}
	if len(g.variables) > 0 && g.Intn(3) == 0 {
		return g.variables[g.Intn(len(g.variables))] + g.pick("", "", ".a", ".name")
	}
	return g.pick(
		".", "$", ".word", ".s", ".i", ".f", ".neg", ".z", ".t", ".b", ".n", ".missing", ".list", ".strs", ".map", ".em", ".el", ".deep", ".deep.a.b",
		".name", ".age", ".a", "$.word", "$.deep.a", "$.strs", "$.n", ".int", ".negint", ".doc", "1", "0", "-3", "2.5", "1e3", "'a'", "\"a\"", "\"é\\n\"", "`r`", "true",
		"false", "nil", ".n.x", ".missing.x", ".map.c", ".small", ".big", fmt.Sprint(g.Intn(300)), ".word.x", ".people",
	)
}
