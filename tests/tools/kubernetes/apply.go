package main

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"sort"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

type typedOption = typed.ValidationOptions

// step is one write of a manager with its outcome.
type step struct {
	Manager string         `json:"manager"`
	Apply   bool           `json:"apply"`
	Force   bool           `json:"force,omitempty"`
	Object  map[string]any `json:"object"`
	// Result is absent after a conflict.
	Result    map[string]any            `json:"result,omitempty"`
	Managers  map[string]map[string]any `json:"managers,omitempty"`
	Conflicts []string                  `json:"conflicts,omitempty"`
}

type identity struct{}

func (identity) Convert(object *typed.TypedValue, _ fieldpath.APIVersion) (*typed.TypedValue, error) {
	return object, nil
}

func (identity) IsMissingVersionError(error) bool { return false }

func applyVectors() any {
	random := rand.New(rand.NewSource(15))
	sequences := [][]step{}
	for range 60 {
		sequences = append(sequences, sequence(random))
	}
	return sequences
}

func sequence(random *rand.Rand) []step {
	updater := (&merge.UpdaterBuilder{Converter: identity{}, ReturnInputOnNoop: true}).BuildUpdater()
	live := toTyped(map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"})
	managers := fieldpath.ManagedFields{}
	steps := []step{}
	for range 5 {
		one := step{Manager: pick(random, "a", "b", "c"), Apply: random.Intn(4) > 0, Force: random.Intn(2) > 0}
		one.Object = deployment(random)
		if !one.Apply {
			one.Manager += "-update"
		}
		object := toTyped(one.Object)
		var result *typed.TypedValue
		var after fieldpath.ManagedFields
		var err error
		if one.Apply {
			result, after, err = updater.Apply(live, object, "apps/v1", managers.Copy(), one.Manager, one.Force)
		} else {
			result, after, err = updater.Update(live, object, "apps/v1", managers.Copy(), one.Manager)
		}
		if conflicts, is := err.(merge.Conflicts); is {
			for _, conflict := range conflicts {
				one.Conflicts = append(one.Conflicts, conflict.Manager+" "+conflict.Path.String())
			}
			sort.Strings(one.Conflicts)
			steps = append(steps, one)
			continue
		}
		check(err)
		live, managers = result, after
		one.Result = live.AsValue().Unstructured().(map[string]any)
		one.Managers = map[string]map[string]any{}
		for name, set := range managers {
			text, err := set.Set().ToJSON()
			check(err)
			one.Managers[name] = parse(string(text))
		}
		// A copy: later steps change the value.
		text, err := json.Marshal(one)
		check(err)
		copied := step{}
		decoder := json.NewDecoder(bytes.NewReader(text))
		check(decoder.Decode(&copied))
		steps = append(steps, copied)
	}
	return steps
}

func toTyped(object map[string]any) *typed.TypedValue {
	value, err := converter.ObjectToTyped(&unstructured.Unstructured{Object: object})
	check(err)
	return value
}

func pick[T any](random *rand.Rand, values ...T) T {
	return values[random.Intn(len(values))]
}

func maybe(random *rand.Rand, object map[string]any, name string, make func() any) {
	if random.Intn(2) == 0 {
		object[name] = make()
	}
}

func deployment(random *rand.Rand) map[string]any {
	labels := func() any {
		result := map[string]any{}
		for _, name := range []string{"app", "tier"} {
			maybe(random, result, name, func() any { return pick(random, "x", "y") })
		}
		return result
	}
	container := func(name string) any {
		result := map[string]any{"name": name}
		maybe(random, result, "image", func() any { return pick(random, "one", "two") })
		maybe(random, result, "args", func() any { return pick(random, []any{"-a"}, []any{"-b", "-c"}, []any{}) })
		maybe(random, result, "env", func() any { return named(random, "value", "A", "B", "C") })
		maybe(random, result, "ports", func() any {
			return pick(random, []any{map[string]any{"containerPort": int64(80)}},
				[]any{map[string]any{"containerPort": int64(80), "protocol": "TCP", "name": "http"}, map[string]any{"containerPort": int64(80), "protocol": "UDP"}})
		})
		maybe(random, result, "resources", func() any { return map[string]any{"limits": map[string]any{"cpu": pick(random, "1", "2")}} })
		return result
	}
	pod := map[string]any{}
	maybe(random, pod, "serviceAccountName", func() any { return pick(random, "s", "t") })
	maybe(random, pod, "nodeSelector", labels)
	maybe(random, pod, "imagePullSecrets", func() any { return pick(random, []any{map[string]any{"name": "p"}}, []any{}) })
	maybe(random, pod, "containers", func() any {
		result := []any{}
		for _, name := range []string{"x", "y", "z"} {
			if random.Intn(2) == 0 {
				result = append(result, container(name))
			}
		}
		random.Shuffle(len(result), func(i, j int) { result[i], result[j] = result[j], result[i] })
		return result
	})
	spec := map[string]any{}
	maybe(random, spec, "replicas", func() any { return int64(random.Intn(3)) })
	maybe(random, spec, "selector", func() any { return map[string]any{"matchLabels": labels()} })
	maybe(random, spec, "template", func() any { return map[string]any{"metadata": map[string]any{"labels": labels()}, "spec": pod} })
	metadata := map[string]any{}
	maybe(random, metadata, "labels", labels)
	maybe(random, metadata, "finalizers", func() any { return pick(random, []any{"f/a"}, []any{"f/b", "f/a"}) })
	maybe(random, metadata, "annotations", func() any { return map[string]any{"note": pick(random, "1", "2")} })
	object := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}
	maybe(random, object, "spec", func() any { return spec })
	maybe(random, object, "metadata", func() any { return metadata })
	return object
}

func named(random *rand.Rand, value string, names ...string) any {
	result := []any{}
	for _, name := range names {
		if random.Intn(2) == 0 {
			result = append(result, map[string]any{"name": name, value: pick(random, "1", "2")})
		}
	}
	return result
}
