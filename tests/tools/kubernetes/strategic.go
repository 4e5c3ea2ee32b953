package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"path"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// patchTable has what a strategic merge patch has to know of the types of the kinds.
type patchTable struct {
	Kinds map[string]string                 `json:"kinds"`
	Types map[string]map[string]*patchField `json:"types"`
}

type patchField struct {
	// Type is the name of the structure in the field, in the items of a list, or in the values of a map.
	Type string `json:"type,omitempty"`
	List bool   `json:"list,omitempty"`
	// Map is a map with any keys, whose values a patch cannot merge.
	Map      bool   `json:"map,omitempty"`
	MergeKey string `json:"mergeKey,omitempty"`
	Replace  bool   `json:"replace,omitempty"`
	Merge    bool   `json:"merge,omitempty"`
}

func strategicTypes() any {
	result := patchTable{Kinds: map[string]string{}, Types: map[string]map[string]*patchField{}}
	for _, object := range kinds {
		all, _, err := scheme.Scheme.ObjectKinds(object)
		check(err)
		name := result.add(reflect.TypeOf(object).Elem())
		result.Kinds[fmt.Sprintf("%s/%s/%s", all[0].Group, all[0].Version, all[0].Kind)] = name
	}
	return result
}

// add adds a structure with all it contains, and returns its name.
func (t *patchTable) add(structure reflect.Type) string {
	name := path.Base(path.Dir(structure.PkgPath())) + "/" + structure.String()
	if t.Types[name] == nil {
		t.Types[name] = map[string]*patchField{}
		t.fields(t.Types[name], structure)
	}
	return name
}

func (t *patchTable) fields(fields map[string]*patchField, structure reflect.Type) {
	for index := range structure.NumField() {
		one := structure.Field(index)
		label, options, _ := strings.Cut(one.Tag.Get("json"), ",")
		if label == "-" {
			continue
		}
		if label == "" {
			if options == "inline" || one.Anonymous {
				t.fields(fields, one.Type)
			}
			continue
		}
		field := &patchField{MergeKey: one.Tag.Get("patchMergeKey")}
		for _, strategy := range strings.Split(one.Tag.Get("patchStrategy"), ",") {
			switch strategy {
			case "merge":
				field.Merge = true
			case "replace":
				field.Replace = true
			case "", "retainKeys":
			default:
				check(fmt.Errorf("%s: unknown strategy %q", label, strategy))
			}
		}
		inner := one.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch inner.Kind() {
		case reflect.Slice:
			// Bytes are a string.
			field.List = inner.Elem().Kind() != reflect.Uint8
			inner = inner.Elem()
		case reflect.Map:
			field.Map = true
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && !field.Map && !writesItself(inner) {
			field.Type = t.add(inner)
		}
		if *field != (patchField{}) {
			fields[label] = field
		}
	}
}

// writesItself tells whether the JSON of a structure is no object, as that of a time or a quantity.
func writesItself(structure reflect.Type) bool {
	_, is := reflect.New(structure).Interface().(json.Marshaler)
	return is
}

// patchVector is a strategic merge patch of a Deployment with its result.
type patchVector struct {
	Object json.RawMessage `json:"object"`
	Patch  json.RawMessage `json:"patch"`
	Result json.RawMessage `json:"result,omitempty"`
	// Error is that of Go's code.
	Error string `json:"error,omitempty"`
}

// Patches with directives, or with what a patch must not have.
var patches = []string{
	// Deletion of items that may be there or not, and what is left without a target.
	`{"spec":{"template":{"spec":{"containers":[{"name":"x","$patch":"delete"}]}}}}`,
	`{"spec":{"template":{"spec":{"containers":[{"name":"w","image":"new"},{"name":"y","$patch":"delete"}]}}}}`,
	`{"spec":{"template":{"spec":{"containers":[{"name":"z","ports":[{"containerPort":80,"$patch":"delete"}],"env":[{"name":"A","$patch":"delete"}]}]}}}}`,
	`{"spec":{"template":{"spec":{"volumes":[{"name":"v","$patch":"delete"}]}}}}`,
	`{"spec":{"template":{"spec":{"volumes":[{"name":"v","$retainKeys":["name","emptyDir"],"emptyDir":{}}]}}}}`,
	// Replacement of lists and objects.
	`{"spec":{"template":{"spec":{"containers":[{"name":"y","image":"new"},{"$patch":"replace"}]}}}}`,
	`{"spec":{"template":{"spec":{"$patch":"replace","serviceAccountName":"only","hostname":null}}}}`,
	`{"spec":{"template":{"metadata":{"labels":{"$patch":"replace","only":"1"}}}}}`,
	`{"spec":{"template":{"$patch":"delete"}}}`,
	`{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}`,
	`{"spec":{"strategy":{"$patch":"replace","type":"Recreate"}}}`,
	// Lists of scalars.
	`{"metadata":{"$deleteFromPrimitiveList/finalizers":["f/a"]}}`,
	`{"metadata":{"$deleteFromPrimitiveList/finalizers":["f/a"],"finalizers":["f/c"]}}`,
	`{"metadata":{"finalizers":["f/c","f/a"]}}`,
	`{"metadata":{"$setElementOrder/finalizers":["f/c","f/a","f/b"],"finalizers":["f/c"]}}`,
	// Order of items.
	`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"z"},{"name":"x"}],"containers":[{"name":"x","image":"new"}]}}}}`,
	`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"new"},{"name":"y"},{"name":"x"}],"containers":[{"name":"new"}]}}}}`,
	`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"y"},{"name":"x"}]}}}}`,
	`{"spec":{"template":{"spec":{"containers":[{"name":"new"},{"name":"z","image":"new"},{"name":"x","image":"new"},{"name":"last"}]}}}}`,
	`{"spec":{"template":{"spec":{"imagePullSecrets":[{"name":"p"},{"name":"q"}],"tolerations":[{"key":"k"}]}}}}`,
	// Two ports of one number.
	`{"spec":{"template":{"spec":{"containers":[{"name":"x","ports":[{"containerPort":80,"name":"web"}],"env":[{"name":"A","value":"9"}]}]}}}}`,
	`{"spec":{"template":{"spec":{"containers":[{"name":"x","ports":[{"containerPort":80,"name":"a"},{"containerPort":80,"protocol":"UDP","name":"b"}]}]}}}}`,
	`{"spec":{"template":{"spec":{"containers":[{"name":"y","ports":[{"containerPort":81},{"containerPort":80,"$patch":"delete"}]}]}}}}`,
	// Null.
	`{"metadata":{"labels":null,"annotations":{"note":null,"more":"1"}}}`,
	`{"spec":{"template":{"spec":{"containers":[{"name":"x","image":null,"resources":{"limits":{"cpu":null,"memory":"1Gi"}}}],"nodeSelector":null}}}}`,
	`{"spec":{"replicas":null,"template":{"spec":{"affinity":{"podAntiAffinity":null,"nodeAffinity":{"x":null}}}}}}`,
	// Mistakes.
	`{"spec":{"template":{"spec":{"containers":[{"image":"without a name"}]}}}}`,
	`{"spec":{"template":{"spec":{"containers":[{"name":"x","$patch":"merge"}]}}}}`,
	`{"spec":{"template":{"spec":{"$patch":"unknown"}}}}`,
	`{"spec":{"strategy":{"$retainKeys":["type"],"rollingUpdate":{}}}}`,
	`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"x"}],"containers":[{"name":"y"}]}}}}`,
	`{"metadata":{"finalizers":["f/a",1]}}`,
}

func strategicVectors() any {
	random := rand.New(rand.NewSource(16))
	vectors := []patchVector{}
	add := func(object, patch []byte) {
		result, err := strategicpatch.StrategicMergePatch(object, patch, appsv1.Deployment{})
		if err != nil {
			vectors = append(vectors, patchVector{Object: object, Patch: patch, Error: err.Error()})
			return
		}
		vectors = append(vectors, patchVector{Object: object, Patch: patch, Result: result})
	}
	object := func() []byte {
		text, err := json.Marshal(deployment(random))
		check(err)
		return text
	}
	whole := []byte(`{"metadata":{"labels":{"app":"x"},"annotations":{"note":"1"},"finalizers":["f/a","f/b"]},"spec":{"replicas":1,` +
		`"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{` +
		`"nodeSelector":{"a":"b"},"imagePullSecrets":[{"name":"r"},{"name":"q"}],"tolerations":[{"key":"old"}],` +
		`"volumes":[{"name":"u","emptyDir":{}},{"name":"v","secret":{"secretName":"s"}}],"containers":[` +
		`{"name":"x","image":"one","ports":[{"containerPort":80,"protocol":"TCP"},{"containerPort":80,"protocol":"UDP","name":"udp"}],` +
		`"env":[{"name":"B","value":"1"},{"name":"A","value":"1"}],"resources":{"limits":{"cpu":"1"}}},` +
		`{"name":"y","ports":[{"containerPort":80},{"containerPort":80,"protocol":"UDP"},{"containerPort":82}]},{"name":"z","args":["-a"]}]}}}}`)
	for _, patch := range patches {
		add(whole, []byte(patch))
		add([]byte(`{}`), []byte(patch))
		for range 2 {
			add(object(), []byte(patch))
		}
	}
	for range 60 {
		add(object(), object())
	}
	return vectors
}
