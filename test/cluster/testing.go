package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/loam-os/loam/test/judge"
)

// Start is Run for the time of t. Where the programs have not been built yet,
// the test is skipped; with CI set, they are built (which takes minutes) and
// what goes wrong is a failure.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	found := programs(t, "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
	c := must(Run(t.Context(), t.TempDir(), found, o))(t)
	t.Cleanup(func() {
		c.Close()
		c.showLogs(t)
	})

	return c
}

// StartRegistry is RunRegistry for the time of t. As Start, it skips where the
// registry has not been built.
func StartRegistry(t testing.TB, o RegistryOptions) *Registry {
	t.Helper()
	found := programs(t, "registry")
	r := must(RunRegistry(t.Context(), t.TempDir(), found, o))(t)
	t.Cleanup(func() {
		r.Close()
		r.showLogs(t)
	})

	return r
}

// must returns a function that returns the value, or ends the test with the
// error.
func must[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// showLogs shows the ends of the logs if t failed.
func (h *host) showLogs(t testing.TB) {
	for _, p := range h.all {
		if t.Failed() {
			t.Logf("%s, the end of its log:\n%s", p.name, p.logEnd())
		}
	}
}

// Program returns the path of a program that Build builds: kubelet, which is
// static, for a guest. Where it is not built yet, it does as Start does.
func Program(t testing.TB, name string) string {
	t.Helper()
	return programs(t, name)[name]
}

// programs returns the path of each program. A program that is not built yet is
// a reason to skip, and in CI a reason to build it.
func programs(t testing.TB, names ...string) map[string]string {
	t.Helper()
	if judge.InCheck() {
		t.Skip("make check starts no programs of others; make test does")
	}

	find := locate
	if os.Getenv("CI") != "" {
		find = func(ctx context.Context) (map[string]string, error) {
			return Build(ctx, t.Output(), names...)
		}
	}

	paths := must(find(t.Context()))(t)
	for _, name := range names {
		if _, err := os.Stat(paths[name]); err != nil {
			t.Skipf("%v: go run ./test/cluster/build builds it, once, in minutes", err)
		}
	}

	return paths
}

// StopAPI kills the API server: connections to it are reset, new ones refused.
func (c *Cluster) StopAPI(t testing.TB) {
	t.Helper()
	c.api.kill()
	c.closeIdle()
}

// StartAPI starts the API server (again), with the same port and data.
func (c *Cluster) StartAPI(t testing.TB) {
	t.Helper()
	if err := c.startAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Admin is AdminKubeconfig.
func (c *Cluster) Admin(t testing.TB) string { t.Helper(); return must(c.AdminKubeconfig())(t) }

// Kubeconfig is the text of a file that makes its reader that user, by a
// client certificate. Its server is URL; for a guest, replace it by GuestURL.
func (c *Cluster) Kubeconfig(t testing.TB, user string, groups ...string) string {
	t.Helper()
	return must(c.kubeconfig(user, groups...))(t)
}

// BootstrapToken is NewToken.
func (c *Cluster) BootstrapToken(t testing.TB) string {
	t.Helper()
	return must(c.NewToken(t.Context()))(t)
}

// AllowNodeAgents is AllowAgent.
func (c *Cluster) AllowNodeAgents(t testing.TB, nodes ...string) {
	t.Helper()
	if err := c.AllowAgent(t.Context(), nodes...); err != nil {
		t.Fatal(err)
	}
}

// ApproveNodeAgent is ApproveAgent, which may take as long as timeout.
func (c *Cluster) ApproveNodeAgent(t testing.TB, timeout time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := c.ApproveAgent(ctx); err != nil {
		t.Fatal(err)
	}
}

// Stop kills the registry: connections to it are reset, new ones refused.
func (r *Registry) Stop(t testing.TB) {
	t.Helper()
	r.process.kill()
	r.client.CloseIdleConnections()
}

// Start starts the registry (again), with the same port and content.
func (r *Registry) Start(t testing.TB) {
	t.Helper()
	if err := r.serve(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Push is PushImage.
func (r *Registry) Push(t testing.TB, ref string, image Image) string {
	t.Helper()
	return must(r.PushImage(ref, image))(t)
}

// PushIndex pushes images for several architectures, and an index of them
// under the reference, whose digest it returns.
func (r *Registry) PushIndex(t testing.TB, ref string, images ...Image) string {
	t.Helper()
	return must(r.pushIndex(ref, images...))(t)
}

// Get asks the registry for a path below /v2/, as "loam/os/manifests/v1".
func (r *Registry) Get(t testing.TB, path string) []byte {
	t.Helper()
	return must(r.get(path))(t).body
}

func (r *Registry) get(path string) (response, error) {
	return do(r.client, request{
		method: http.MethodGet,
		url:    r.URL() + "/v2/" + path,
		header: http.Header{"Accept": {IndexType, ManifestType}},
	})
}

// Upload pushes a blob to a repository.
func (r *Registry) Upload(t testing.TB, name, mediaType string, blob []byte) Descriptor {
	t.Helper()
	return must(r.upload(name, mediaType, blob))(t)
}

// Put pushes a manifest or an index, under its digest if tag is empty.
func (r *Registry) Put(t testing.TB, name, tag, mediaType string, content any) Descriptor {
	t.Helper()
	return must(r.put(name, tag, mediaType, content))(t)
}

// Find decodes the manifest or the index that has the tag or the digest; where
// there is none it leaves to as it is.
func (r *Registry) Find(t testing.TB, name, reference string, to any) {
	t.Helper()
	a, err := r.get(name + "/manifests/" + reference)
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
		return
	}
	if err == nil {
		err = json.Unmarshal(a.body, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}
