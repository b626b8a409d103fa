package apiserver

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Object is an object of the API.
type Object interface {
	runtime.Object
	meta.Object
}

// kind is a kind of objects.
type kind struct {
	version    schema.GroupVersion
	name       string
	resource   string
	namespaced bool

	object Object
	list   runtime.Object

	// unconditional says that an update needs no resource version, creates that
	// an update creates an object that is absent.
	unconditional, creates bool

	// columns are the first columns of a table, and cells those of an object.
	columns []string
	cells   func(Object) []any
}

// kinds are all kinds, by the path of their group and their resource.
var kinds = map[string]*kind{
	"api/v1/nodes": {
		version:       core.SchemeGroupVersion,
		name:          "Node",
		resource:      "nodes",
		object:        &core.Node{},
		list:          &core.NodeList{},
		unconditional: true,
		columns:       []string{"Name", "Status", "Roles", "Age", "Version"},
		cells:         nodeCells,
	},
	"api/v1/pods": {
		version:       core.SchemeGroupVersion,
		name:          "Pod",
		resource:      "pods",
		namespaced:    true,
		object:        &core.Pod{},
		list:          &core.PodList{},
		unconditional: true,
		columns:       []string{"Name"},
		cells:         nameCell,
	},
	"api/v1/secrets": {
		version:       core.SchemeGroupVersion,
		name:          "Secret",
		resource:      "secrets",
		namespaced:    true,
		object:        &core.Secret{},
		list:          &core.SecretList{},
		unconditional: true,
		columns:       []string{"Name"},
		cells:         nameCell,
	},
	"api/v1/events": {
		version:       core.SchemeGroupVersion,
		name:          "Event",
		resource:      "events",
		namespaced:    true,
		object:        &core.Event{},
		list:          &core.EventList{},
		unconditional: true,
		creates:       true,
		columns:       []string{"Name"},
		cells:         nameCell,
	},
	"apis/coordination.k8s.io/v1/leases": {
		version:    coordination.SchemeGroupVersion,
		name:       "Lease",
		resource:   "leases",
		namespaced: true,
		object:     &coordination.Lease{},
		list:       &coordination.LeaseList{},
		creates:    true,
		columns:    []string{"Name", "Holder"},
		cells:      leaseCells,
	},
	"apis/policy/v1/poddisruptionbudgets": {
		version:    policy.SchemeGroupVersion,
		name:       "PodDisruptionBudget",
		resource:   "poddisruptionbudgets",
		namespaced: true,
		object:     &policy.PodDisruptionBudget{},
		list:       &policy.PodDisruptionBudgetList{},
		columns:    []string{"Name"},
		cells:      nameCell,
	},
}

// codecs encode and decode what the API has.
var codecs = func() runtime.NegotiatedSerializer {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		core.AddToScheme, coordination.AddToScheme, policy.AddToScheme, meta.AddMetaToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	meta.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme).WithoutConversion()
}()

func (k *kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.version.Group, Resource: k.resource}
}

func (k *kind) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: k.version.Group, Kind: k.name}
}

// empty returns a new object.
func (k *kind) empty() Object {
	return reflect.New(reflect.TypeOf(k.object).Elem()).Interface().(Object)
}

// part returns the field of an object with that name, invalid if it has none.
func part(o Object, name string) reflect.Value { return reflect.ValueOf(o).Elem().FieldByName(name) }

// keep gives o the field of before, if the kind has it.
func keep(o, before Object, name string) {
	if field := part(o, name); field.IsValid() {
		field.Set(part(before, name))
	}
}

// hasStatus reports whether the kind has a subresource status.
func (k *kind) hasStatus() bool { return part(k.object, "Status").IsValid() }

// fieldsOf returns the fields that a selector may name.
func fieldsOf(o Object) fields.Set {
	set := fields.Set{"metadata.name": o.GetName()}
	if o.GetNamespace() != "" {
		set["metadata.namespace"] = o.GetNamespace()
	}
	switch o := o.(type) {
	case *core.Pod:
		set["spec.nodeName"] = o.Spec.NodeName
		set["status.phase"] = string(o.Status.Phase)
	case *core.Node:
		set["spec.unschedulable"] = "false"
		if o.Spec.Unschedulable {
			set["spec.unschedulable"] = "true"
		}
	case *core.Event:
		set["involvedObject.kind"] = o.InvolvedObject.Kind
		set["involvedObject.name"] = o.InvolvedObject.Name
		set["reason"] = o.Reason
	case *core.Secret:
		set["type"] = string(o.Type)
	}
	return set
}

func nameCell(o Object) []any { return []any{o.GetName()} }

func leaseCells(o Object) []any {
	holder := ""
	if h := o.(*coordination.Lease).Spec.HolderIdentity; h != nil {
		holder = *h
	}
	return []any{o.GetName(), holder}
}

// nodeCells are those of kubectl get nodes. Ages are not known: they would change
// without a write.
func nodeCells(o Object) []any {
	n := o.(*core.Node)
	const prefix = "node-role.kubernetes.io/"
	var roles []string
	for _, label := range slices.Sorted(maps.Keys(n.Labels)) {
		if role, ok := strings.CutPrefix(label, prefix); ok && role != "" {
			roles = append(roles, role)
		}
	}
	if len(roles) == 0 {
		roles = []string{"<none>"}
	}
	return []any{
		n.Name,
		nodeStatus(n),
		strings.Join(roles, ","),
		"<unknown>",
		n.Status.NodeInfo.KubeletVersion,
	}
}

func nodeStatus(n *core.Node) string {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type != core.NodeReady:
		case c.Status == core.ConditionTrue:
			status = "Ready"
		default:
			status = "NotReady"
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}
