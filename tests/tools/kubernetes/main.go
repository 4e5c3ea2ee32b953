// Prints test vectors and type tables of the operator and its test server, made by Kubernetes' own Go code.
//
//	cd tests/tools/kubernetes
//	go run . schema > ../../../operator/schema/tests/it/vectors.json
//	go run . types > ../../../operator/fixture/src/types/builtin.json
//	go run . apply > ../../../operator/fixture/src/apply/vectors.json
//	go run . patch-types > ../../../operator/strategic-merge/src/types.json
//	go run . patches > ../../../operator/strategic-merge/src/merge/vectors.json
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

var commands = map[string]func() any{
	"schema":      schemaVectors,
	"types":       typeTable,
	"apply":       applyVectors,
	"patch-types": strategicTypes,
	"patches":     strategicVectors,
}

func main() {
	if len(os.Args) != 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: kubernetes-vectors schema|types|apply|patch-types|patches")
		os.Exit(2)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	check(encoder.Encode(commands[os.Args[1]]()))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parse(text string) map[string]any {
	value := map[string]any{}
	check(unmarshal([]byte(text), &value))
	return value
}
