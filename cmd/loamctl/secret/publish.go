package secret

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/loam-os/loam/cmd/loamctl/kubeconfig"
)

// Result is what Publish has done.
type Result string

const (
	Created   Result = "created"
	Updated   Result = "updated"
	Unchanged Result = "unchanged"
)

// Outcome is a result with the checksum that was there before, "" if none.
type Outcome struct {
	Result Result
	Before string
}

// API is a server of the Kubernetes API; see kubeconfig.Server.
type API interface {
	Do(ctx context.Context, method, path string, body, into any) error
	List(ctx context.Context, path, selector string) ([]kubeconfig.Object, error)
}

// tries is how often a concurrent writer may come first.
const tries = 10

const secretsPath = "/api/v1/namespaces/" + Namespace + "/secrets"

// Publish creates or updates the Secret. After a concurrent change it reads the
// Secret again and does not overwrite the change. It does not create a Secret
// beside others, which nodes read instead of it, unless New is set.
func (s Secret) Publish(ctx context.Context, api API) (Outcome, error) {
	for try := 1; ; try++ {
		outcome, err := s.publish(ctx, api)
		if err == nil {
			return outcome, nil
		}
		if code(err) != http.StatusConflict || try == tries {
			return outcome, fmt.Errorf("publish Secret %s/%s: %w", Namespace, s.Name, err)
		}
	}
}

func (s Secret) publish(ctx context.Context, api API) (Outcome, error) {
	var have map[string]any
	err := api.Do(ctx, http.MethodGet, secretsPath+"/"+s.Name, nil, &have)
	if code(err) == http.StatusNotFound {
		if err := s.refuseUnread(ctx, api); err != nil {
			return Outcome{}, err
		}
		return Outcome{Result: Created}, api.Do(ctx, http.MethodPost, secretsPath, s.in(nil), nil)
	}

	if err != nil {
		return Outcome{}, err
	}

	before, _ := field(have, "metadata", "annotations", checksumAnnotation).(string)
	want := s.in(have)
	if reflect.DeepEqual(have, want) {
		return Outcome{Result: Unchanged, Before: before}, nil
	}

	// The object names the version it was read at: another one is a conflict.
	return Outcome{Result: Updated, Before: before}, api.Do(ctx, http.MethodPut,
		secretsPath+"/"+s.Name, want, nil)
}

// code is the status code of the server's answer, 0 if there was no answer or a
// good one.
func code(err error) int {
	if status, is := errors.AsType[*kubeconfig.StatusError](err); is {
		return status.Code
	}
	return 0
}
