package plane_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/files"
)

func TestStarted(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		want *plane.Started
	}{
		"both versions": {
			"Kubernetes 1.36.3\netcd Version: 3.6.16\nGit SHA: 4b5a7e8\nGo Version: go1.26\n",
			&plane.Started{Kubernetes: "1.36.3", Etcd: "3.6.16"},
		},
		"a version that is not released": {
			"Kubernetes 1.37.0\netcd Version: 3.7.0-rc.1\n",
			&plane.Started{Kubernetes: "1.37.0", Etcd: "3.7.0-rc.1"},
		},
		"a part":       {"Kubernetes 1.36.3\netcd Ver", nil},
		"other text":   {"Kubernetes 1.x\netcd Version: 3.6.16\n", nil},
		"zeros before": {"Kubernetes 1.036.3\netcd Version: 3.6.16\n", nil},
		"nothing":      {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := files.Root(t)
			store := plane.NewStore(durable.New(root, nil))
			files.Write(t, filepath.Join(root.Name(), plane.StateDirectory, "started"), row.text)
			got, err := store.Started()
			if diff := cmp.Diff(row.want, got); err != nil || diff != "" {
				t.Errorf("%v, -want +got:\n%s", err, diff)
			}
		})
	}
}

func TestCheckEtcd(t *testing.T) {
	for name, row := range map[string]struct{ kubernetes, etcd, to, toEtcd, want string }{
		"the same etcd":              {"1.36.3", "3.7.3", "1.37.2", "3.7.3", ""},
		"a patch version":            {"1.36.3", "3.7.3", "1.37.2", "3.7.9", ""},
		"an earlier patch version":   {"1.36.3", "3.7.9", "1.37.2", "3.7.3", ""},
		"a newer etcd alone":         {"1.36.3", "3.6.16", "1.36.4", "3.7.3", ""},
		"a newer etcd, back in both": {"1.36.4", "3.6.16", "1.36.3", "3.7.3", ""},
		"both at once": {
			"1.36.3", "3.6.16", "1.37.2", "3.7.3",
			"record.json:4: kubernetes: its bundle has etcd 3.7.3 and this node runs Kubernetes 1.36.3 " +
				"with etcd 3.6.16: a change of both could not be reverted; hint: write a version of 1.36 " +
				"whose bundle has etcd 3.7 first",
		},
		"an older etcd": {
			"1.36.4", "3.7.3", "1.36.3", "3.6.16",
			"record.json:4: kubernetes: etcd 3.6.16 of its bundle cannot read the data that etcd 3.7.3 " +
				"has written; hint: write a version whose bundle has etcd 3.7 or newer",
		},
		"an older etcd for a newer Kubernetes": {
			"1.36.4", "3.7.3", "1.37.0", "3.6.16",
			"record.json:4: kubernetes: etcd 3.6.16 of its bundle cannot read the data that etcd 3.7.3 " +
				"has written; hint: write a version whose bundle has etcd 3.7 or newer",
		},
		"the etcd after the next": {
			"1.36.3", "3.5.30", "1.36.4", "3.7.3",
			"record.json:4: kubernetes: its bundle has etcd 3.7.3 and the data are of etcd 3.5.30, " +
				"which skips no minor version; hint: write a version whose bundle has etcd 3.6 first",
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Join([]string{
				`{`, `"apiVersion": "loam.dev/v1alpha1", "kind": "Cluster",`, `"name": "plant-7",`,
				`"kubernetes": "` + row.to + `"`, `}`,
			}, "\n")
			started := plane.Started{Kubernetes: row.kubernetes, Etcd: row.etcd}
			err := plane.CheckEtcd("record.json", []byte(text), started, row.toEtcd)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != row.want || err != nil && fault.Of(err) != fault.DocumentInvalid {
				t.Errorf("got  %s (%s)\nwant %s", got, fault.Of(err), row.want)
			}
		})
	}
}
