package addons

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"

	"github.com/loam-os/loam/agent/plane/api"
)

// Check returns why the cluster does not have these objects as they are applied, or
// why they do not run. It changes nothing.
func Check(ctx context.Context, server *api.Client, want []Object) error {
	var idle error
	for _, o := range want {
		have, err := o.check(ctx, server)
		if err != nil {
			return fmt.Errorf("%s %s: %w", o.kind.Name, o.name, err)
		}
		if o.kind == deployment && !isAvailable(have) {
			idle = fmt.Errorf("%s %s: no pod of it is available", o.kind.Name, o.name)
		}
	}
	return idle
}

// check returns the object of the cluster.
func (o Object) check(
	ctx context.Context, server *api.Client,
) (have map[string]any, err error) {
	var applied map[string]any
	err = server.Do(ctx, http.MethodGet, o.Path(), nil, &have)
	if api.IsNotFound(err) {
		return nil, errors.New("absent")
	}
	if err != nil {
		return nil, err
	}
	err = server.TryApply(ctx, o.Path(), Manager, o.Body(), &applied)
	if err != nil {
		return nil, err
	}

	if !reflect.DeepEqual(withoutState(have), withoutState(applied)) {
		return nil, errors.New("something has changed it")
	}
	return have, nil
}

// withoutState returns an object without what the API server and controllers write.
func withoutState(object map[string]any) map[string]any {
	rest := maps.Clone(object)
	delete(rest, "status")
	if metadata, is := rest["metadata"].(map[string]any); is {
		metadata = maps.Clone(metadata)
		for _, name := range []string{"generation", "managedFields", "resourceVersion"} {
			delete(metadata, name)
		}
		rest["metadata"] = metadata
	}
	return rest
}

// isAvailable reports whether a Deployment has a pod that serves.
func isAvailable(object map[string]any) bool {
	status, _ := object["status"].(map[string]any)
	available, _ := status["availableReplicas"].(float64)
	return available > 0
}
