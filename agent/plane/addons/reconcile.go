package addons

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"

	"github.com/loam-os/loam/agent/plane/api"
	"github.com/loam-os/loam/hint"
)

// Manager is the field manager of the objects at the API server.
const Manager = "loam"

// Found is an object of an add-on at the API server.
type Found struct {
	// Path is the path of the object.
	Path string
	// Managed is whether Manager has applied it. An object that only has the label
	// is of somebody else.
	Managed bool
}

// Plan is what makes the cluster have the objects.
type Plan struct {
	// Apply are the objects in their order. One that is as it should be is applied
	// as well: the API server writes nothing then.
	Apply []Object
	// Delete are paths of objects of add-ons that the cluster has no longer.
	Delete []string
}

// Decide returns what makes the cluster have these objects and no other ones of
// add-ons. It is pure.
func Decide(want []Object, have []Found) Plan {
	plan := Plan{Apply: want}
	for _, f := range have {
		isWanted := slices.ContainsFunc(want, func(o Object) bool { return o.Path() == f.Path })
		if f.Managed && !isWanted {
			plan.Delete = append(plan.Delete, f.Path)
		}
	}

	return plan
}

// Reconcile makes the cluster have these objects, and deletes other ones that it
// has applied before. An object that the API server refuses keeps no other one
// back.
func Reconcile(ctx context.Context, server *api.Client, want []Object) error {
	have, err := observe(ctx, server)
	if err != nil {
		return err
	}

	plan := Decide(want, have)
	var refused []error
	for _, o := range plan.Apply {
		err := server.Apply(ctx, o.Path(), Manager, o.Body(), nil)
		if err == nil {
			continue
		}
		err = fmt.Errorf("apply %s %s: %w", o.kind.Name, o.name, err)
		if !api.IsInvalid(err) {
			return err
		}
		refused = append(refused, withHint(err, o))
	}
	for _, at := range plan.Delete {
		err := server.Delete(ctx, at)
		if err != nil {
			return fmt.Errorf("delete %s: %w", at, err)
		}
	}

	return errors.Join(refused...)
}

// withHint adds what to do about an object that the API server refuses.
func withHint(err error, o Object) error {
	if o.addOn == policies {
		return hint.With(err, "delete what is in its place")
	}
	return hint.With(err, "delete what is in its place, or leave %s out of "+
		"addOns of the cluster record", o.addOn)
}

// observe lists the objects with the label, of all kinds.
func observe(ctx context.Context, server *api.Client) ([]Found, error) {
	var all []Found
	for _, k := range kinds {
		var list struct {
			Items []struct {
				Metadata struct {
					Name          string
					ManagedFields []struct{ Manager, Operation string }
				}
			}
		}
		query := url.Values{"labelSelector": {Label}}
		err := server.List(ctx, k.path()+"?"+query.Encode(), &list)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", k.Resource, err)
		}

		for _, item := range list.Items {
			f := Found{Path: path.Join(k.path(), item.Metadata.Name)}
			for _, m := range item.Metadata.ManagedFields {
				f.Managed = f.Managed || (m.Manager == Manager && m.Operation == "Apply")
			}
			all = append(all, f)
		}
	}

	return all, nil
}
