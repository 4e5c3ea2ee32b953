package main

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// Kinds that the test server knows by their types.
var kinds = []runtime.Object{
	&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Service{}, &corev1.ServiceAccount{}, &corev1.Pod{}, &corev1.Event{},
	&corev1.Namespace{}, &corev1.PersistentVolumeClaim{}, &appsv1.Deployment{}, &appsv1.StatefulSet{}, &rbacv1.Role{},
	&rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}, &coordinationv1.Lease{},
	&discoveryv1.EndpointSlice{}, &eventsv1.Event{}, &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{},
	&networkingv1.Ingress{}, &admissionregistrationv1.ValidatingWebhookConfiguration{},
}

type table struct {
	Kinds map[string]string `json:"kinds"`
	Types map[string]*shape `json:"types"`
}

type shape struct {
	// Named is the name of a type of the table.
	Named  string                 `json:"named,omitempty"`
	Scalar bool                   `json:"scalar,omitempty"`
	Any    bool                   `json:"any,omitempty"`
	Atomic bool                   `json:"atomic,omitempty"`
	Fields map[string]*fieldShape `json:"fields,omitempty"`
	// Rest are the values of a map, Items those of a list.
	Rest  *shape   `json:"rest,omitempty"`
	Items *shape   `json:"items,omitempty"`
	Set   bool     `json:"set,omitempty"`
	Keys  []string `json:"keys,omitempty"`
}

type fieldShape struct {
	Shape   *shape `json:"shape"`
	Default any    `json:"default,omitempty"`
}

var converter = applyconfigurations.NewTypeConverter(scheme.Scheme)

func typeTable() any {
	result := table{Kinds: map[string]string{}, Types: map[string]*shape{}}
	for _, object := range kinds {
		all, _, err := scheme.Scheme.ObjectKinds(object)
		check(err)
		object.GetObjectKind().SetGroupVersionKind(all[0])
		value, err := converter.ObjectToTyped(object, managedfieldsOptions...)
		check(err)
		name := *value.TypeRef().NamedType
		result.Kinds[fmt.Sprintf("%s/%s/%s", all[0].Group, all[0].Version, all[0].Kind)] = name
		result.add(value.Schema(), name)
	}
	return result
}

func (t *table) add(all *schema.Schema, name string) {
	if t.Types[name] != nil {
		return
	}
	definition, found := all.FindNamedType(name)
	if !found {
		check(fmt.Errorf("type %s is missing", name))
	}
	t.Types[name] = &shape{}
	*t.Types[name] = *t.convert(all, &definition.Atom)
}

func (t *table) reference(all *schema.Schema, reference schema.TypeRef) *shape {
	if reference.NamedType == nil {
		result := t.convert(all, &reference.Inlined)
		if reference.ElementRelationship != nil {
			result.Atomic = *reference.ElementRelationship == schema.Atomic
		}
		return result
	}
	t.add(all, *reference.NamedType)
	result := &shape{Named: *reference.NamedType}
	if reference.ElementRelationship != nil {
		result.Atomic = *reference.ElementRelationship == schema.Atomic
	}
	return result
}

func (t *table) convert(all *schema.Schema, atom *schema.Atom) *shape {
	switch {
	case atom.Map != nil && atom.List != nil:
		return &shape{Any: true, Atomic: atom.Map.ElementRelationship == schema.Atomic}
	case atom.Map != nil:
		result := &shape{Fields: map[string]*fieldShape{}, Atomic: atom.Map.ElementRelationship == schema.Atomic}
		for _, one := range atom.Map.Fields {
			result.Fields[one.Name] = &fieldShape{Shape: t.reference(all, one.Type)}
			// Keys of lists have scalar defaults alone.
			if _, isScalar := one.Default.(string); isScalar {
				result.Fields[one.Name].Default = one.Default
			}
		}
		if atom.Map.ElementType.NamedType != nil || atom.Map.ElementType.Inlined != (schema.Atom{}) {
			result.Rest = t.reference(all, atom.Map.ElementType)
		}
		return result
	case atom.List != nil:
		result := &shape{Items: t.reference(all, atom.List.ElementType), Keys: atom.List.Keys}
		result.Atomic = atom.List.ElementRelationship == schema.Atomic
		result.Set = !result.Atomic && len(result.Keys) == 0
		return result
	default:
		return &shape{Scalar: true}
	}
}

var managedfieldsOptions = []typedOption{}

var _ managedfields.TypeConverter = converter
