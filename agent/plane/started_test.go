package plane_test

import (
	"fmt"
	"os"
	"os/exec"
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
		"the directory of etcd": {
			"Kubernetes 1.36.3\nPrograms /var/lib/loam/kubernetes/1.37.2/bin\netcd Version: 3.7.3\n",
			&plane.Started{
				Kubernetes: "1.36.3",
				Etcd:       "3.7.3",
				Programs:   "/var/lib/loam/kubernetes/1.37.2/bin",
			},
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

// TestAnEtcdOnAFullDisk: an etcd of another version does not start if that cannot be
// kept, as the older one could never be refused again. The commands of the unit do it.
func TestAnEtcdOnAFullDisk(t *testing.T) {
	const programs = "/var/lib/loam/kubernetes/1.37.2/bin"
	text := find(t, rendered(t, ""), "etcd.service")
	for _, row := range []struct {
		name          string
		before, etcd  string
		full, serves  bool
		starts        bool
		want, wantDir string
	}{
		{"the first start", "", "3.6.9", false, true, true, "3.6.9", programs},
		{"the next etcd", "3.6.9", "3.7.3", false, true, true, "3.7.3", programs},
		{"the next etcd, which does not serve", "3.6.9", "3.7.3", false, false, true, "3.6.9", "/before"},
		{"the next etcd on a full disk", "3.6.9", "3.7.3", true, true, false, "3.6.9", "/before"},
		{"the same etcd on a full disk", "3.7.3", "3.7.3", true, true, true, "3.7.3", "/before"},
		{"a version that begins alike", "3.7.30", "3.7.3", true, true, false, "3.7.30", "/before"},
	} {
		t.Run(row.name, func(t *testing.T) {
			root := files.Root(t)
			at := func(name string) string { return filepath.Join(root.Name(), name) }
			files.Write(t, at(programs+"/etcd"), "#!/bin/sh\necho etcd Version: "+row.etcd+"\necho Git SHA: 0\n")
			if err := os.Chmod(at(programs+"/etcd"), 0o755); err != nil {
				t.Fatal(err)
			}
			started := at(plane.StateDirectory + "/started")
			files.Write(t, started, "")
			if row.before != "" {
				files.Write(t, started,
					"Kubernetes 1.36.3\nPrograms /before\netcd Version: "+row.before+"\nGit SHA: 0\n")
			}
			if row.full {
				if err := os.Symlink("/dev/full", started+".new"); err != nil {
					t.Fatal(err)
				}
			}

			in := strings.ReplaceAll(text, "/var/lib/loam/", at("/var/lib/loam")+"/")
			err := runCommand(in, "ExecStartPre=+")
			if (err == nil) != row.starts {
				t.Errorf("before etcd starts: %v", err)
			}
			if err == nil && row.serves {
				err = runCommand(in, "ExecStartPost=-+")
				if err != nil {
					t.Error(err)
				}
			}

			got, err := plane.NewStore(durable.New(root, nil)).Started()
			if err != nil || got == nil || got.Etcd != row.want ||
				strings.TrimPrefix(got.Programs, root.Name()) != row.wantDir {
				t.Errorf("it has started as %+v, %v", got, err)
			}
		})
	}
}

// runCommand runs the command of a unit after that key. It must be one of a shell.
func runCommand(text, key string) error {
	_, rest, _ := strings.Cut(text, "\n"+key+"/bin/sh -c '")
	command, _, _ := strings.Cut(rest, "'\n")
	out, err := exec.Command("/bin/sh", "-c", command).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func TestCheckEtcd(t *testing.T) {
	for name, row := range map[string]struct{ kubernetes, etcd, to, toEtcd, want string }{
		"the same etcd":              {"1.36.3", "3.7.3", "1.37.2", "3.7.3", ""},
		"a patch version":            {"1.36.3", "3.7.3", "1.37.2", "3.7.9", ""},
		"an earlier patch version":   {"1.36.3", "3.7.9", "1.37.2", "3.7.3", ""},
		"a newer etcd alone":         {"1.36.3", "3.6.16", "1.36.4", "3.7.3", ""},
		"a newer etcd, back in both": {"1.36.4", "3.6.16", "1.36.3", "3.7.3", ""},
		"both at once":               {"1.36.3", "3.6.16", "1.37.2", "3.7.3", ""},
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
			if got != row.want || (err != nil && fault.Of(err) != fault.DocumentInvalid) {
				t.Errorf("got  %s (%s)\nwant %s", got, fault.Of(err), row.want)
			}
		})
	}
}

// TestEtcdFirst: while the data are of the earlier minor version, and while the newer
// etcd is on trial, nothing else changes.
func TestEtcdFirst(t *testing.T) {
	for name, row := range map[string]struct {
		started, bundled, next string
		onTrial, want          bool
	}{
		"before the newer etcd has served":         {"3.6.16", "3.6.16", "3.7.3", false, true},
		"while the newer etcd starts":              {"3.6.16", "3.6.16", "3.7.3", true, true},
		"after it has served, on trial":            {"3.7.3", "3.6.16", "3.7.3", true, true},
		"after its trial":                          {"3.7.3", "3.6.16", "3.7.3", false, false},
		"the same etcd":                            {"3.7.3", "3.7.3", "3.7.3", false, false},
		"the same etcd, another change on trial":   {"3.7.3", "3.7.3", "3.7.3", true, false},
		"a patch version, another change on trial": {"3.7.3", "3.7.3", "3.7.9", true, false},
		"a bundle that is lost":                    {"3.7.3", "", "3.7.3", true, false},
	} {
		started := plane.Started{Kubernetes: "1.36.3", Etcd: row.started}
		if got := plane.EtcdFirst(started, row.bundled, row.next, row.onTrial); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestRan: after etcd alone was upgraded, neither version has run as a whole.
func TestRan(t *testing.T) {
	const old, next = "/kubernetes/1.36.3/bin", "/kubernetes/1.37.2/bin"
	for _, row := range []struct {
		version, programs string
		want              map[string]bool
	}{
		{"1.36.3", "", map[string]bool{old: true}},
		{"1.36.3", old, map[string]bool{old: true}},
		{"1.36.3", next, nil},
		{"1.37.2", next, map[string]bool{next: true}},
	} {
		started := plane.Started{Kubernetes: row.version, Programs: row.programs}
		for version, programs := range map[string]string{"1.36.3": old, "1.37.2": next} {
			r := plane.NewRecord(plane.Settings{Kubernetes: version})
			if got := started.Ran(r, programs); got != row.want[programs] {
				t.Errorf("%+v: %s ran: %v", started, version, got)
			}
		}
	}
}
