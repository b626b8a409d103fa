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
