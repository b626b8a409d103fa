package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/etcd/disk"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/files"
)

// syncsIn is a disk that takes that long for a sync.
func syncsIn(p99 time.Duration) disk.Probe {
	return func(context.Context, string) (time.Duration, error) { return p99, nil }
}

const clusterMachine = `apiVersion: loam.dev/v1alpha1
kind: Machine
hostname: node-1
`

// TestADiskTooSlowForEtcd: a refused machine has nothing of a cluster, and makes
// one at the next start if it may.
func TestADiskTooSlowForEtcd(t *testing.T) {
	const slow = "the disk of ROOT/var/lib is too slow for etcd: a sync takes up to 140 ms, want less than 100 ms"
	broken := func(context.Context, string) (time.Duration, error) { return 0, errors.New("no room") }

	type result struct {
		Cluster  string
		Error    string
		Code     string
		Warnings []string
	}
	for _, row := range []struct {
		name    string
		cluster string
		probe   disk.Probe
		want    result
	}{
		{
			name:    "a disk that is fast enough",
			cluster: "{init: {}}",
			probe:   syncsIn(99 * time.Millisecond),
			want:    result{Cluster: "kubernetes"},
		},
		{
			name:    "a slow disk",
			cluster: "{init: {}}",
			probe:   syncsIn(140 * time.Millisecond),
			want:    result{Error: slow, Code: string(fault.DiskTooSlow)},
		},
		{
			name:    "a slow disk that is allowed",
			cluster: "{init: {}, allowSlowDisk: true}",
			probe:   syncsIn(140 * time.Millisecond),
			want:    result{Cluster: "kubernetes", Warnings: []string{slow}},
		},
		{
			name:    "a disk that cannot be measured",
			cluster: "{init: {}}",
			probe:   broken,
			want:    result{Error: "measure the disk of ROOT/var/lib: no room"},
		},
		{
			name:    "a slow disk of a machine that is no cluster",
			cluster: "{allowSlowDisk: true}",
			probe:   broken,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			n := unidentified(t)
			n.Fsync = row.probe
			files.Write(t, filepath.Join(n.Root, source.RunPath),
				clusterMachine+"cluster: "+row.cluster+"\n")
			n.reset = n.newReset()
			n.identify(t.Context())

			got := result{Cluster: nameOf(n.status.OwnCluster)}
			if n.status.Error != nil {
				got.Error = withoutRoot(n, n.status.Error.Problem)
				got.Code = string(n.status.Error.Code)
			}
			for _, warning := range n.status.Warnings {
				got.Warnings = append(got.Warnings, withoutRoot(n, warning))
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}

			_, err := os.Stat(filepath.Join(n.Root, plane.StateDirectory))
			if made := err == nil; made != (row.want.Cluster != "") {
				t.Errorf("%s is there: %v", plane.StateDirectory, made)
			}
		})
	}
}

// TestAnInitThatIsRefused changes nothing, and says where the mistake is and what to
// do.
func TestAnInitThatIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		init    string
		code    fault.Code
		path    string
		problem string
	}{
		"networks that overlap": {
			"pods: [10.96.0.0/12]", fault.DocumentInvalid, "cluster.init.services[0]",
			"10.96.0.0/16 overlaps 10.96.0.0/12 of pods[0]",
		},
		"a network of pods that is too small": {
			"pods: [10.1.0.0/25]", fault.DocumentInvalid, "cluster.init.pods[0]",
			"10.1.0.0/25 is too small: each node takes a /24 of it",
		},
		"a network of Services that is too small": {
			"services: [10.1.0.0/30]", fault.DocumentInvalid, "cluster.init.services[0]",
			"10.1.0.0/30 is too small for the services of a cluster",
		},
		"a version that is not known": {
			"kubernetes: 1.99.0", fault.DocumentInvalid, "cluster.init.kubernetes",
			`"1.99.0" is not known to this release of Loam`,
		},
		"a text that is no version": {
			"kubernetes: v1.37.2", fault.DocumentInvalid, "cluster.init.kubernetes",
			`"v1.37.2" is not a version of Kubernetes`,
		},
		"a name that is none": {
			"name: Plant_7", fault.DocumentInvalid, "cluster.init.name",
			`"Plant_7" is not the name of a cluster`,
		},
		"another cluster": {
			"name: plant-8", fault.CannotBeApplied, "cluster.init.name",
			"init plant-8: this node belongs to another cluster, kubernetes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, first := range []bool{true, false} {
				if first && row.code == fault.CannotBeApplied {
					continue // The node is free to become that one.
				}
				checkInitRefused(t, first, row.init, status.Error{
					Code:    row.code,
					Path:    row.path,
					Problem: row.problem,
				})
			}
		})
	}
}

// checkInitRefused starts a machine with an init that is refused, which is the first
// of no cluster yet or of one already.
func checkInitRefused(t *testing.T, first bool, init string, want status.Error) {
	t.Helper()
	n := unidentified(t)
	n.Fsync = syncsIn(time.Millisecond)
	n.reset = n.newReset()
	start := func(init string) {
		files.Write(t, filepath.Join(n.Root, source.RunPath),
			clusterMachine+"cluster: {init: {"+init+"}}\n")
		n.identify(t.Context())
	}
	if !first {
		start("")
	}
	before := treeOf(t, filepath.Join(n.Root, plane.StateDirectory))

	n.status.Error = nil
	start(init)
	got := n.status.Error
	if got == nil || got.Hint == "" || got.Code != want.Code || got.Path != want.Path ||
		got.Problem != want.Problem {
		t.Errorf("got %+v, want %+v", got, want)
	}
	after := treeOf(t, filepath.Join(n.Root, plane.StateDirectory))
	if diff := cmp.Diff(before, after); diff != "" || first != (len(after) == 0) {
		t.Errorf("%d files, -before +after:\n%s", len(after), diff)
	}
}

// treeOf returns the files in a directory by their names, none if it is absent.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		tree[name] = string(text)
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return tree
}

// TestADiskIsMeasuredOnceOnly: a cluster goes on whatever the disk is like now.
func TestADiskIsMeasuredOnceOnly(t *testing.T) {
	n := unidentified(t)
	files.Write(t, filepath.Join(n.Root, source.RunPath),
		clusterMachine+"cluster: {init: {}}\n")
	n.reset = n.newReset()
	n.identify(t.Context())

	n.Fsync = func(context.Context, string) (time.Duration, error) {
		t.Error("the disk is measured again")
		return time.Hour, nil
	}
	n.identify(t.Context())
	if nameOf(n.status.OwnCluster) != "kubernetes" || n.status.Error != nil {
		t.Errorf("cluster %q, %v", nameOf(n.status.OwnCluster), n.status.Error)
	}
}

// withoutRoot returns a text without the temporary directory of the node.
func withoutRoot(n *node, text string) string {
	return strings.ReplaceAll(text, n.Root, "ROOT")
}

// nameOf returns the name of a cluster, "" if there is none.
func nameOf(c *status.OwnCluster) string {
	if c == nil {
		return ""
	}
	return c.Name
}
