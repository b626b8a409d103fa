package addons

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/hint"
)

// Label is on each object of an add-on, with the name of the add-on.
const Label = "loam.dev/addon"

// namespace is where the objects with a namespace are.
const namespace = "kube-system"

// fields are fields of an object by their names in JSON.
type fields map[string]any

// kind is a kind of objects at the API server.
type kind struct {
	// Version is the group and the version.
	Version, Name string
	// Resource is its name in paths.
	Resource   string
	Namespaced bool
}

var (
	serviceAccount     = kind{"v1", "ServiceAccount", "serviceaccounts", true}
	configMap          = kind{"v1", "ConfigMap", "configmaps", true}
	service            = kind{"v1", "Service", "services", true}
	deployment         = kind{"apps/v1", "Deployment", "deployments", true}
	clusterRole        = kind{"rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false}
	clusterRoleBinding = kind{
		"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", false,
	}
	policy = kind{
		"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy",
		"validatingadmissionpolicies", false,
	}
	policyBinding = kind{
		"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding",
		"validatingadmissionpolicybindings", false,
	}
)

// kinds are all kinds that an add-on of this or of an earlier release has: objects
// of other kinds are never deleted.
var kinds = []kind{
	deployment, service, configMap, clusterRoleBinding, clusterRole, serviceAccount,
	policyBinding, policy,
}

// path returns the path of all objects of the kind in the namespace of the
// add-ons.
func (k kind) path() string {
	root := "/apis/" + k.Version
	if k.Version == "v1" {
		root = "/api/v1"
	}
	if k.Namespaced {
		return path.Join(root, "namespaces", namespace, k.Resource)
	}
	return path.Join(root, k.Resource)
}

// Object is an object to be applied.
type Object struct {
	addOn string
	kind  kind
	name  string
	body  fields
}

// Path returns the path of the object at the API server.
func (o Object) Path() string { return path.Join(o.kind.path(), o.name) }

// Body returns the object as it is applied.
func (o Object) Body() map[string]any { return o.body }

// labeled returns the object with further labels.
func (o Object) labeled(labels fields) Object {
	maps.Copy(o.body["metadata"].(fields)["labels"].(fields), labels)
	return o
}

// annotated returns the object with annotations.
func (o Object) annotated(annotations fields) Object {
	o.body["metadata"].(fields)["annotations"] = annotations
	return o
}

// object returns an object of an add-on, with further fields.
func object(addOn string, k kind, name string, more fields) Object {
	metadata := fields{
		"name": name,
		"labels": fields{
			Label:                          addOn,
			"app.kubernetes.io/managed-by": "loam",
		},
	}
	if k.Namespaced {
		metadata["namespace"] = namespace
	}

	body := fields{"apiVersion": k.Version, "kind": k.Name, "metadata": metadata}
	maps.Copy(body, more)
	return Object{addOn, k, name, body}
}

// Of returns the objects of the add-ons of a cluster, in the order in which they
// are applied. images are the full names of the images of its Kubernetes bundle.
func Of(r plane.Record, images []string) ([]Object, error) {
	if !r.Has(plane.AddOnCoreDNS) {
		return nil, nil
	}

	i := slices.IndexFunc(images, func(name string) bool { return repository(name) == "coredns" })
	if i < 0 {
		return nil, hint.With(
			fmt.Errorf("bundle of Kubernetes %s: no image coredns", r.Kubernetes),
			"make the bundle again, with the image coredns, or leave coredns out of addOns of "+
				"the cluster record")
	}
	return coreDNS(r, images[i]), nil
}
