package main

import (
	"context"
	"encoding/json"
	"sort"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"
)

var unmarshal = utiljson.Unmarshal

type schemaVector struct {
	Schema  json.RawMessage   `json:"schema"`
	Objects []objectJudgement `json:"objects"`
}

type objectJudgement struct {
	Object  json.RawMessage `json:"object"`
	Old     json.RawMessage `json:"old,omitempty"`
	Unknown []string        `json:"unknown,omitempty"`
	Result  any             `json:"result"`
	Errors  []string        `json:"errors,omitempty"`
}

type schemaCase struct {
	schema  string
	objects []string
	// updates are pairs of an old and a new object.
	updates [][2]string
}

func schemaVectors() any {
	vectors := []schemaVector{}
	for _, one := range schemaCases {
		external := v1.JSONSchemaProps{}
		check(json.Unmarshal([]byte(one.schema), &external))
		internal := apiextensions.JSONSchemaProps{}
		check(v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&external, &internal, nil))
		judge := func(old, object string) objectJudgement {
			return judge(&internal, old, object)
		}
		vector := schemaVector{Schema: json.RawMessage(one.schema)}
		for _, object := range one.objects {
			vector.Objects = append(vector.Objects, judge("", object))
		}
		for _, pair := range one.updates {
			vector.Objects = append(vector.Objects, judge(pair[0], pair[1]))
		}
		vectors = append(vectors, vector)
	}
	return vectors
}

func judge(schema *apiextensions.JSONSchemaProps, old, object string) objectJudgement {
	tree, err := structural.NewStructural(schema)
	check(err)
	validator, _, err := validation.NewSchemaValidator(schema)
	check(err)
	value := parse(object)
	unknown := pruning.PruneWithOptions(value, tree, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(value, tree)
	defaulting.Default(value, tree)
	var before map[string]any
	var correlated *common.CorrelatedObject
	judgement := objectJudgement{Object: json.RawMessage(object), Unknown: unknown, Result: value}
	if old != "" {
		before = parse(old)
		judgement.Old = json.RawMessage(old)
		correlated = common.NewCorrelatedObject(value, before, &model.Structural{Structural: tree})
	}
	errors := field.ErrorList{}
	if before == nil {
		errors = append(errors, validation.ValidateCustomResource(nil, value, validator)...)
	} else {
		errors = append(errors, validation.ValidateCustomResourceUpdate(nil, value, before, validator, validation.WithRatcheting(correlated))...)
	}
	errors = append(errors, listtype.ValidateListSetsAndMaps(nil, tree, value)...)
	rules := cel.NewValidator(tree, true, 1<<40)
	if rules != nil && blocks(errors) {
		errors = append(errors, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
	} else if rules != nil {
		var previous any
		if before != nil {
			previous = before
		}
		options := []cel.Option{}
		if correlated != nil {
			options = append(options, cel.WithRatcheting(correlated))
		}
		found, _ := rules.Validate(context.Background(), nil, tree, value, previous, 1<<40, options...)
		errors = append(errors, found...)
	}
	for _, err := range errors {
		judgement.Errors = append(judgement.Errors, err.Error())
	}
	// Go's order is that of its maps.
	sort.Strings(judgement.Errors)
	return judgement
}

func blocks(errors field.ErrorList) bool {
	for _, err := range errors {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}
