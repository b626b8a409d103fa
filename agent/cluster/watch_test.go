package cluster

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/cluster/credentials"
)

// TestAWatchHidesNoError has an API server out of reach in ways that a client takes for
// the end of a watch.
func TestAWatchHidesNoError(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
	}{
		{"a timeout", os.ErrDeadlineExceeded},
		{"a reset", syscall.ECONNRESET},
		{"an end", io.EOF},
		{"nobody listens", syscall.ECONNREFUSED},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			target := credentials.Target{Server: "https://nowhere.invalid"}
			target.Transport = roundTripper(func(*http.Request) (*http.Response, error) {
				return nil, test.err
			})
			api, err := newAPI(target.REST(credentials.Credentials{}, ""))
			if err != nil {
				t.Fatal(err)
			}

			var errs []error
			watch(ctx, byName(api.core, "nodes", "", "node-1"), &core.Node{}, func() {
				t.Error("a watch begins")
			}, func(err error) {
				errs = append(errs, err)
				if len(errs) == 4 {
					cancel()
				}
			}, func([]*core.Node) { t.Error("a list") })

			for _, err := range errs {
				if err == nil || !strings.Contains(err.Error(), test.err.Error()) {
					t.Errorf("%v, want %v", err, test.err)
				}
			}
			if len(errs) != 4 {
				t.Errorf("%d errors, want 4", len(errs))
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
