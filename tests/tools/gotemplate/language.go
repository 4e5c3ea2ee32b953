package main

// Text, comments, trim markers, pipelines.
var syntax = []string{
	"", " ", "text", "{", "}}", "{ {.word}}", "a\nb", "{{.word}}", "{{ .word }}", "{{\t.word\n}}", "{{.word}}{{.word}}",
	"a {{- .word -}} b", "a {{- .word}} b", "a {{.word -}} b", "a \n\t{{- .word -}}\r\n b", "{{- .word}}", "{{.word -}}",
	"{{-.word}}", "{{.word-}}", "{{- -}}", "{{-3}}", "{{- 3}}", "{{3 -}}", "{{ - 3}}", "a {{- 3 -}} b",
	"{{/* c */}}", "a {{/* c */}} b", "a {{- /* c */ -}} b", "a {{/* c */ -}} b", "a {{- /* c */}} b", "{{/* a\n\nb */}}x",
	"{{/* {{.x}} */}}x", "{{ /* c */}}", "{{/* c */ }}", "{{/* c }}", "{{/* c */ .word}}", "a{{/*c*/}}{{/*d*/}}b",
	"{{.word | print}}", "{{.word | printf \"%s-%s\" \"a\"}}", "{{1 | print 2 | print 3}}", "{{\"a\" | print | print}}",
	"{{.word|print|printf \"%q\"}}", "{{(.word)}}", "{{((.word))}}", "{{(print 1 2)}}", "{{print (print 1 2) (print 3)}}",
	"{{print (1 | print 2)}}", "{{(.deep).a}}", "{{(.deep.a).b.c}}", "{{(index .people 0).name}}", "{{((.deep).a).b}}",
	"{{(print 1).x}}", "{{print.x}}", "{{(.missing).x}}", "{{(.n).x}}", "{{($.deep).a.b.c}}",
	"{{true}}", "{{false}}", "{{print nil}}", "{{print true false}}", "{{\"a\\tb\\u00e9\\x41\\101\\\"\"}}", "{{`a\\n`}}", "{{`a\nb`}}",
	"{{\"\"}}", "{{``}}", "{{'a'}}", "{{'\\n'}}", "{{'é'}}", "{{'\\''}}", "{{'\\x41'}}", "{{'\\u00e9'}}", "{{\"\\U0001F600\"}}", "{{\"\\xc3\\xa9\"}}",
	"{{.}}{{/* all data */}}", "{{$}}x", "{{len .}}", "{{len $}}", "{{.word|print }}", "{{ .word|\nprint }}", "{{1 | }}", "{{1|}}",
	"日本 {{.word}} 語", "{{\"日本\"}}", "{{.日本}}", "{{._x}}", "{{.x1}}", "{{print 1 2 \"a\" 3 \"b\" \"c\" nil nil}}",
	"{{.word}}\n{{.word}}\n", "{{range .strs}}\n{{.}}\n{{end}}", "{{range .strs -}}\n{{.}}\n{{- end}}", "{{ nil | print }}",
	"{{\"{{\"}}", "{{\"}}\"}}", "{{`}}`}}", "{{print \"a\"\"b\"}}", "{{print(1)}}", "{{print (1)(2)}}", "{{print 1(2)}}", "{{.word .word}}",
	"{{/**/}}", "{{/*/}}", "{{print 1, 2}}", "{{print .word.x}}", "{{-1}}", "{{+1}}", "{{print -1 +1}}", "{{print - 1}}",
	"{{if .t -}} a {{- else -}} b {{- end}} c", "x{{- /* a */ -}}{{- .word -}} y", "{{ .word -}}\u00a0x",
}

// Templates that do not parse, or fail.
var mistakes = []string{
	"{{", "{{.word", "{{}}", "{{ }}", "{{end}}", "{{else}}", "{{if}}x{{end}}", "{{if .t}}", "{{if .t}}{{else}}", "{{range}}{{end}}",
	"{{with}}{{end}}", "{{if .t}}{{end}}{{end}}", "{{if .t}}{{else}}{{else}}{{end}}", "{{range .strs}}{{else if .t}}{{end}}",
	"{{if .t}}{{else with .t}}{{end}}", "{{with .t}}{{else if .t}}{{end}}", "{{if .t}}{{else if}}{{end}}", "{{end if}}", "{{else 1}}",
	"{{nofunc}}", "{{nofunc 1}}", "{{.word | nofunc}}", "{{break}}", "{{continue}}", "{{if .t}}{{break}}{{end}}",
	"{{range .strs}}{{end}}{{break}}", "{{range .strs}}{{else}}{{break}}{{end}}", "{{range .strs}}{{break 1}}{{end}}",
	"{{template}}", "{{template x}}", "{{template 1}}", "{{template \"x\"}}", "{{if .b}}{{template \"x\"}}{{end}}", "{{template \"x\" . .}}",
	"{{define}}{{end}}", "{{define x}}{{end}}", "{{define \"x\"}}", "{{define \"x\" .}}{{end}}", "{{if .t}}{{define \"x\"}}{{end}}{{end}}",
	"{{define \"x\"}}{{define \"y\"}}{{end}}{{end}}", "{{define \"x\"}}{{else}}{{end}}", "{{block}}{{end}}", "{{block \"x\"}}{{end}}",
	"{{block \"x\" .}}", "{{block \"x\" .}}{{else}}{{end}}", "{{(1}}", "{{1)}}", "{{(}}", "{{()}}", "{{(1 -}}", "{{print (1 2)}}", "{{print (nil)}}",
	"{{nil}}", "{{nil.x}}", "{{true.x}}", "{{\"a\".x}}", "{{1.x}}", "{{(1).x}}", "{{..x}}", "{{. .x}}", "{{.x.5}}", "{{.x.y.}}", "{{.5}}",
	"{{.my-id}}", "{{.word-x}}", "{{$x}}", "{{$x.y}}", "{{$.word}}", "{{$.}}", "{{$ .word}}", "{{.word $}}", "{{\"a}}", "{{\"a\nb\"}}", "{{`a}}", "{{'a}}", "{{''}}", "{{'ab'}}",
	"{{\"\\z\"}}", "{{\"\\400\"}}", "{{\"\\'\"}}", "{{'\\\"'}}", "{{\"\\ud800\"}}", "{{\"\\u12\"}}", "{{1 | 2}}", "{{1 | .}}", "{{1 | true}}", "{{1 | \"a\"}}", "{{1 | nil}}",
	"{{1 | .word}}", "{{1 | $}}", "{{1 | (print)}}", "{{1 | .missing.x}}", "{{.missing.x 1}}", "{{.missing 1}}", "{{1 | .deep.zz.x}}", "{{1 | (.deep).zz.x}}",
	"{{1 2}}", "{{true false}}", "{{\"a\" 1}}", "{{(print 1) 2}}", "{{. 1}}", "{{| print}}", "{{print | | print}}", "{{print ||}}", "{{a}}", "{{#}}", "{{.word;}}", "{{\x01}}", "{{é}}",
	"{{1 + 2}}", "{{1+2}}", "{{.i == 1}}", "{{!.t}}", "{{.t && .b}}", "{{: 1}}", "{{$x : 1}}", "{{x := 1}}", "{{.x := 1}}", "{{:=}}", "{{=}}", "{{,}}", "{{if := 1}}{{end}}",
	"{{range .strs}}{{block \"x\" .}}{{break}}{{end}}{{end}}", "{{break}}{{range .strs}}{{end}}", "{{define \"x\"}}{{break}}{{end}}", "{{else if .t}}", "{{with $x}}{{end}}",
	"{{define \"x\"}}a{{end}}{{define \"x\"}}b{{end}}", "{{block \"x\" .}}a{{end}}{{define \"x\"}}b{{end}}", "{{template \"x\" $y}}", "{{define \"x\"}}{{$y}}{{end}}{{$y := 1}}{{template \"x\"}}",
}

// Fields, keys, nulls and missing values.
var values = []string{
	"{{.i}}", "{{.f}}", "{{.neg}}", "{{.z}}", "{{.big}}", "{{.small}}", "{{.t}}", "{{.b}}", "{{.e}}", "{{.n}}", "{{.s}}", "{{.html}}",
	"{{.list}}", "{{.strs}}", "{{.nums}}", "{{.el}}", "{{.map}}", "{{.em}}", "{{.deep}}", "{{.people}}", "{{.nulls}}", "{{.int}}", "{{.negint}}", "{{.tree}}",
	"{{.missing}}", "{{.missing.x}}", "{{.missing.x.y}}", "{{.n.x}}", "{{.n.x.y}}", "{{.map.c}}", "{{.map.c.x}}", "{{.map.zz}}", "{{.map.zz.x}}", "{{.deep.a.b.c}}",
	"{{.deep.a.zz.c}}", "{{.word.x}}", "{{.i.x}}", "{{.t.x}}", "{{.list.x}}", "{{.list.0}}", "{{.el.x}}", "{{.em.x}}", "{{.int.x}}", "{{$.deep.a.b.c}}", "{{$.n.x}}", "{{$.missing.x}}",
	"{{(.map).c}}", "{{(.map.c).x}}", "{{with .n}}x{{else}}y{{end}}", "{{print .n}}", "{{print .missing}}", "{{.n | print}}", "{{.missing | print}}", "{{print .map.zz}}",
	"{{range .nulls}}{{.}}{{end}}", "{{range .nulls}}{{.x}}{{end}}", "{{range $e := .nulls}}{{$e}}{{end}}", "{{range $e := .nulls}}{{$e.x}}{{end}}", "{{$x := .n}}{{$x}}{{$x.y}}",
	"{{$x := .missing}}{{$x}}{{$x.y}}", "{{index .list 4}}", "{{(index .list 4).x}}", "{{$x := index .list 4}}{{$x.y}}", "{{$x := (.n)}}{{$x.y}}", "{{.deep.a.b.c.d}}", "{{.deep .a}}", "{{.t}}{{.n.x}}",
	"{{with $x := .map.c}}{{else}}{{$x}}{{end}}", "{{template \"t\" .n}}{{define \"t\"}}{{.}}{{.x}}{{end}}", "{{template \"t\"}}{{define \"t\"}}{{.}}{{.x}}{{$.y}}{{end}}",
}

// if, with, range, break, continue.
var control = []string{
	"{{if .t}}a{{end}}", "{{if .b}}a{{end}}", "{{if .t}}a{{else}}b{{end}}", "{{if .b}}a{{else}}b{{end}}", "{{if .b}}a{{else if .t}}b{{end}}",
	"{{if .b}}a{{else if .b}}b{{else}}c{{end}}", "{{if .b}}a{{else if .b}}b{{else if .t}}c{{else}}d{{end}}", "{{if .z}}a{{else}}b{{end}}", "{{if .e}}a{{else}}b{{end}}",
	"{{if .el}}a{{else}}b{{end}}", "{{if .em}}a{{else}}b{{end}}", "{{if .n}}a{{else}}b{{end}}", "{{if .missing}}a{{else}}b{{end}}", "{{if .map}}a{{else}}b{{end}}", "{{if .list}}a{{else}}b{{end}}",
	"{{if .i}}a{{end}}", "{{if .int}}a{{end}}", "{{if .zero}}a{{else}}b{{end}}", "{{if 0}}a{{else}}b{{end}}", "{{if 0.0}}a{{else}}b{{end}}", "{{if -0.0}}a{{else}}b{{end}}", "{{if \"\"}}a{{else}}b{{end}}", "{{if nil}}a{{end}}",
	"{{if (index .word 0)}}a{{end}}", "{{if .n.x}}a{{end}}", "{{if not .t}}a{{else}}b{{end}}", "{{if and .t .b}}a{{else}}b{{end}}", "{{if or .t .n.x}}a{{end}}", "{{if . }}a{{end}}", "{{if $}}a{{end}}",
	"{{with .deep}}{{.a.b.c}}{{end}}", "{{with .deep.a}}{{with .b}}{{.c}}{{$.word}}{{end}}{{end}}", "{{with .b}}a{{else}}{{.word}}{{end}}", "{{with .b}}a{{else with .word}}{{.}}{{end}}",
	"{{with .b}}a{{else with .n}}b{{else}}c{{end}}", "{{with .word}}{{.}}{{else with .f}}{{.}}{{end}}", "{{with $x := .word}}{{$x}}{{.}}{{end}}", "{{with .word}}{{end}}", "{{with .i}}{{.}}{{end}}", "{{with print .word}}{{.}}{{end}}",
	"{{range .strs}}{{.}},{{end}}", "{{range .list}}{{.}},{{end}}", "{{range .el}}a{{else}}b{{end}}", "{{range .el}}a{{end}}", "{{range .n}}a{{else}}b{{end}}", "{{range .missing}}a{{else}}b{{end}}", "{{range .strs}}a{{else}}b{{end}}",
	"{{range .map}}{{.}},{{end}}", "{{range .map}}a{{else}}b{{end}}", "{{range 3}}a{{else}}b{{end}}", "{{range 3}}{{printf \"%T\" .}}{{end}}", "{{range .map}}a{{break}}{{else}}b{{end}}", "{{range $k, $v := .map}}{{$k}}={{$v}},{{end}}", "{{range $v := .map}}{{$v}},{{end}}", "{{range $i, $e := .strs}}{{$i}}{{$e}}{{end}}", "{{range $e := .strs}}{{$e}}{{.}}{{end}}",
	"{{range .em}}a{{else}}b{{end}}", "{{range .people}}{{.name}} {{.age}};{{end}}", "{{range .strs}}{{$.word}}{{end}}", "{{range .people}}{{range $k, $v := .}}{{$k}}:{{$v}} {{end}}{{end}}",
	"{{range 3}}{{.}}{{end}}", "{{range $i := 3}}{{$i}}{{end}}", "{{range $i, $e := 3}}{{$i}}{{end}}", "{{range 0}}a{{else}}b{{end}}", "{{range -1}}a{{else}}b{{end}}", "{{range .int}}.{{end}}", "{{range 2.0}}a{{end}}", "{{range .i}}a{{end}}",
	"{{range .word}}a{{end}}", "{{range .t}}a{{end}}", "{{range .f}}a{{end}}", "{{range \"abc\"}}a{{end}}", "{{range (index .word 0)}}.{{end}}", "{{range $x := (index \"\\x02\" 0)}}{{printf \"%T\" $x}}{{end}}", "{{range len .strs}}{{.}}{{end}}", "{{range $i, $e := .zero}}{{end}}",
	"{{range .strs}}{{if eq . \"y\"}}{{break}}{{end}}{{.}}{{end}}", "{{range .strs}}{{if eq . \"y\"}}{{continue}}{{end}}{{.}}{{end}}", "{{range .strs}}{{.}}{{break}}{{end}}z", "{{range .strs}}{{continue}}{{.}}{{end}}z",
	"{{range .strs}}{{range $.nums}}{{break}}{{end}}{{.}}{{end}}", "{{range .strs}}{{range $.nums}}{{continue}}x{{end}}{{.}}{{end}}", "{{range .strs}}{{range $.el}}{{else}}{{break}}{{end}}{{.}}{{end}}",
	"{{range .strs}}{{range $.el}}{{else}}{{continue}}{{end}}{{.}}{{end}}", "{{range .strs}}{{with .}}{{break}}{{end}}{{.}}{{end}}", "{{range .strs}}{{with $.word}}{{continue}}{{end}}{{.}}{{end}}", "{{range 5}}{{if eq . 3}}{{break}}{{end}}{{.}}{{end}}",
	"{{range $k, $v := .map}}{{if eq $k \"b\"}}{{break}}{{end}}{{$k}}{{end}}", "{{range .strs}}{{if .}}{{if .}}{{break}}{{end}}{{end}}{{end}}", "{{range $i, $e := .el}}{{else}}{{$i}}{{$e}}{{end}}", "{{range fromJson \"[1,2]\"}}{{.}}{{end}}",
	"{{range $k, $v := fromJson .doc}}{{$k}}{{$v}}{{end}}", "{{range slice .strs 1}}{{.}}{{end}}", "{{range or .el .strs}}{{.}}{{end}}", "{{range . }}{{end}}", "{{range $k, $v := .}}{{$k}} {{end}}", "{{range .strs}}{{range $.nums}}{{.}}{{end}}{{.}}{{end}}",
	"{{range $.strs}}{{with .}}{{.}}{{end}}{{end}}", "{{range .list}}{{if .}}y{{else}}n{{end}}{{end}}", "{{if true}}{{if false}}a{{else}}b{{end}}{{else}}c{{end}}",
}

// Declarations, assignments, scopes.
var variables = []string{
	"{{$x := 1}}{{$x}}", "{{$x := .word}}{{$x}}", "{{$x := 1}}{{$x = 2}}{{$x}}", "{{$x = 1}}", "{{if .b}}{{$x = 1}}{{end}}", "{{$x = 1}}{{$x}}", "{{$x := 1}}{{$x := 2}}{{$x}}", "{{$x:=1}}{{$x}}", "{{ $x := 1 -}} {{$x}}",
	"{{$x := 1}}{{if .t}}{{$x := 2}}{{$x}}{{end}}{{$x}}", "{{$x := 1}}{{if .t}}{{$x = 2}}{{$x}}{{end}}{{$x}}", "{{if $x := .word}}{{$x}}{{end}}", "{{if $x := .word}}{{end}}{{$x}}", "{{if .t}}{{$x := 1}}{{end}}{{$x}}",
	"{{if $x := .b}}a{{else}}{{$x}}{{end}}", "{{if $x := .b}}a{{else if $y := .word}}{{$x}}{{$y}}{{end}}", "{{if $x := .b}}a{{else if $y := .b}}{{else}}{{$x}}{{$y}}{{end}}", "{{with $x := .b}}a{{else with $y := .word}}{{$x}}{{$y}}{{.}}{{end}}",
	"{{range .strs}}{{$x := .}}{{$x}}{{end}}", "{{$x := \"\"}}{{range .strs}}{{$x = print $x .}}{{end}}{{$x}}", "{{range .strs}}{{$x := .}}{{end}}{{$x}}", "{{$n := 0}}{{range $i, $e := .strs}}{{$n = $i}}{{end}}{{$n}}", "{{$i := 9}}{{range $i, $e := .strs}}{{end}}{{$i}}",
	"{{$i := 9}}{{$e := 8}}{{range $i, $e = .strs}}{{end}}{{$i}}{{$e}}", "{{$e := 8}}{{range $e = .strs}}{{end}}{{$e}}", "{{range $e = .strs}}{{end}}", "{{$e := 8}}{{range $e = .strs}}{{$e}}{{end}}", "{{range $i, $e := .strs}}{{$i = 7}}{{$i}}{{end}}",
	"{{$b := .strs}}{{range $a, $b}}{{$a}}{{end}}", "{{range $a, $b}}{{end}}", "{{range $a, }}{{end}}", "{{range $a, .strs}}{{end}}", "{{range $a, $b, $c := .strs}}{{end}}", "{{$a, $b := .strs}}", "{{range $a,$b:=.strs}}{{$a}}{{$b}}{{end}}", "{{range $a , $b := .strs}}{{$a}}{{end}}",
	"{{with $a, $b := .strs}}{{end}}", "{{($x := 1)}}{{$x}}", "{{print ($x := 1) $x}}", "{{or true ($x := 1)}}{{$x}}", "{{or false ($x := 1)}}{{$x}}", "{{and false ($x := 1)}}{{$x}}", "{{$x := 1 | print}}{{$x}}", "{{$x := print 1 | print 2}}{{$x}}", "{{$x := $y := 1}}", "{{$y := 2}}{{$x := $y}}{{$x}}",
	"{{$ := .word}}{{$}}", "{{$ = .word}}{{$}}", "{{$ = .deep}}{{$.a.b.c}}", "{{if .t}}{{$ := 1}}{{end}}{{$.word}}", "{{$x := .deep}}{{$x.a.b.c}}", "{{$x := .deep}}{{$x.a.b.c.d}}", "{{$x := .deep.a}}{{with $x.b}}{{.c}}{{$x.b.c}}{{end}}", "{{$x.y := 1}}", "{{$x := }}", "{{$x := 1 2}}",
	"{{$x := 1}}{{with $x}}{{$x = 5}}{{.}}{{end}}{{$x}}", "{{$x := nil}}", "{{$x := .n}}{{$x}}", "{{$X := 1}}{{$x := 2}}{{$X}}{{$x}}", "{{$1 := 5}}{{$1}}", "{{$é := 5}}{{$é}}", "{{$_ := 5}}{{$_}}", "{{ $x := 1 }}{{ $x | print }}", "{{$x := 1}}{{$x }}", "{{$x := 1}}{{print $x}}", "{{$x := 1}}{{$x $x}}",
	"{{range $i, $e := .strs}}{{range $j, $f := $.nums}}{{$i}}{{$j}}{{$e}}{{$f}} {{end}}{{end}}", "{{range $i, $e := .strs}}{{$e}}{{end}}{{$e}}", "{{$x := 1}}{{range .strs}}{{$x}}{{$x := .}}{{$x}}{{end}}{{$x}}", "{{range $x := ($y := .strs)}}{{$x}}{{end}}", "{{range $x := ($y := .strs)}}{{len $y}}{{$x}}{{end}}",
	"{{$x := 0}}{{range .strs}}{{break}}{{$x = 1}}{{end}}{{$x}}", "{{$x := 1}}{{range 2}}{{if .}}{{$x = .}}{{else}}{{$x := 7}}{{$x}}{{end}}{{end}}{{$x}}", "{{with $x := 1}}{{end}}{{$x}}", "{{$x := slice .strs 1}}{{len $x}}{{index $x 0}}", "{{if false}}{{$y := 1}}{{else}}{{$y}}{{end}}",
}

// define, template, block.
var templates = []string{
	"{{define \"x\"}}a{{end}}", "{{define \"x\"}}a{{end}}{{template \"x\"}}", "{{template \"x\"}}{{define \"x\"}}a{{end}}", "{{define \"x\"}}{{.}}{{end}}{{template \"x\" .word}}", "{{define \"x\"}}{{.}}{{end}}{{template \"x\"}}",
	"{{define `x`}}{{.}}{{end}}{{template `x` 1}}", "{{define \"x\"}}{{$}}{{.}}{{end}}{{template \"x\" .word}}", "{{define \"x\"}}{{.word}}{{end}}{{template \"x\" .}}", "{{define \"x\"}}{{$.word}}{{end}}{{range .strs}}{{template \"x\" $}}{{end}}",
	"{{define \"x\"}}{{$y := 1}}{{$y}}{{end}}{{template \"x\"}}", "{{define \"x\"}}{{template \"y\" .}}{{end}}{{define \"y\"}}{{.}}{{end}}{{template \"x\" 5}}", "{{block \"x\" .word}}{{.}}{{end}}", "{{block \"x\" .}}{{.word}}{{end}}{{template \"x\" .}}",
	"{{block \"x\" .strs}}{{range .}}{{.}}{{end}}{{end}}", "{{range .strs}}{{block \"x\" .}}{{.}}{{end}}{{end}}", "{{define \"x\"}} {{end}}{{define \"x\"}}a{{end}}{{template \"x\"}}", "{{define \"x\"}}a{{end}}{{define \"x\"}} {{/* c */}} {{end}}{{template \"x\"}}",
	"{{define \"t\"}}{{.v}}{{range .c}}({{template \"t\" .}}){{end}}{{end}}{{template \"t\" .tree}}", "{{define \"x\"}}{{end}}[{{template \"x\" .}}]", "{{define \"x\"}}{{if .}}{{template \"x\" slice . 1}}{{index . 0}}{{end}}{{end}}{{template \"x\" .strs}}", "{{define \"\"}}a{{end}}", "{{define \"\"}}a{{end}}b", "{{define \"\"}}a{{end}}\n",
	"{{define \"x\"}}{{return}}{{end}}", "{{define \"x\"}}a{{end}} {{define \"y\"}}b{{end}} {{template \"x\"}}{{template \"y\"}}", "{{- define \"x\" -}} a {{- end -}} {{template \"x\"}}", "{{template \"x\" .word | print}}{{define \"x\"}}{{.}}{{end}}", "{{template \"x\" print 1 2}}{{define \"x\"}}{{.}}{{end}}",
	"{{template \"x\" (print 1)}}{{define \"x\"}}{{.}}{{end}}", "{{$v := 1}}{{template \"x\" $v}}{{define \"x\"}}{{.}}{{end}}", "{{template \"x\" $v := 1}}{{$v}}{{define \"x\"}}{{.}}{{end}}", "{{if .t}}{{template \"x\" .}}{{end}}{{define \"x\"}}{{.word}}{{end}}", "{{define \"x\"}}{{range .}}{{.}}{{break}}{{end}}{{end}}{{range .nums}}{{template \"x\" $.strs}}{{end}}",
	"{{define \"x\"}}{{$ = 1}}{{$}}{{end}}{{template \"x\" 2}}{{$.word}}", "{{block \"x\" .word}}{{.}}{{end}}{{template \"x\" 5}}", "{{template \"\\u0078\"}}{{define \"x\"}}ok{{end}}", "{{define \"x\"}}a{{end}}{{template \"x\" nil}}", "{{define \"x\"}}{{.}}{{end}}{{template \"x\" true}}", "{{with .deep}}{{template \"x\" .}}{{end}}{{define \"x\"}}{{.a.b.c}}{{end}}",
	"{{block \"a\" .}}{{block \"b\" .word}}{{.}}{{end}}{{end}}{{template \"b\" 3}}", "{{define \"x\"}}{{.missing}}{{end}}{{template \"x\" .}}", "{{define \"x\"}}{{.n.x}}{{end}}{{template \"x\" .}}",
}
