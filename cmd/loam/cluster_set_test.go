package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	index "github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/repository"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/updates"
)

// clusterTree is the root directory of a node that is a cluster of Kubernetes
// 1.37.2, and what it has read of its repository.
func clusterTree(t *testing.T, from, trusted string) (string, plane.Record) {
	t.Helper()
	root := files.Root(t)
	store := plane.NewStore(durable.New(root, nil))
	times := pki.Times{Built: time.Now(), Now: time.Now()}
	r, err := store.Init(plane.NewRecord(plane.Settings{}), times)
	if err == nil {
		_, err = store.Renew(r, "node-1", times)
	}
	if err == nil {
		err = store.WriteAddress(netip.MustParseAddr("192.0.2.10"))
	}
	if err != nil {
		t.Fatal(err)
	}

	writePrograms(t, root.Name(), r.Kubernetes, "3.7.3")
	writeJSON(t, filepath.Join(root.Name(), status.Path), status.Status{
		Hostname:   "node-1",
		Repository: from,
	})
	files.Write(t, filepath.Join(root.Name(), "usr/lib/os-release"), "IMAGE_VERSION=1.2.3\n")
	files.Write(t, filepath.Join(root.Name(), "usr/lib/systemd/system/containerd.service"), "[Service]\n")
	if trusted != "" {
		files.Write(t, filepath.Join(root.Name(), "var/lib/loam", repository.TrustedName), trusted)
	}
	return root.Name(), r
}

// writePrograms makes a bundle in which programs are empty, except etcd, which prints
// its version.
func writePrograms(t *testing.T, root, version, etcd string) {
	t.Helper()
	dir := filepath.Join(root, bundle.Directory, version)
	d := bundle.Description{Format: bundle.Format, Version: version, Arch: runtime.GOARCH}
	for _, name := range bundle.Programs {
		text := ""
		if name == "etcd" {
			text = "#!/bin/sh\necho etcd Version: " + etcd + "\n"
		}
		files.Write(t, filepath.Join(dir, "bin", name), text)
		if err := os.Chmod(filepath.Join(dir, "bin", name), 0o755); err != nil {
			t.Fatal(err)
		}
		d.Files = append(d.Files, bundle.File{Name: "bin/" + name, Size: int64(len(text))})
	}
	files.Write(t, filepath.Join(dir, "images/index.json"), `{"manifests": [
		{"annotations": {"org.opencontainers.image.ref.name": "registry.k8s.io/pause:3.10.1"}}]}`)
	writeJSON(t, filepath.Join(dir, "bundle.json"), d)
}

func writeJSON(t *testing.T, name string, content any) {
	t.Helper()
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	files.Write(t, name, string(text))
}

// TestThePlanOfAnotherVersion says what restarts, and how much is fetched before.
func TestThePlanOfAnotherVersion(t *testing.T) {
	published := updates.New(t)
	in := index.KubernetesSources{
		Version: "1.37.3",
		Arch:    runtime.GOARCH,
		Files:   map[string]index.Source{},
	}
	for _, name := range index.KubernetesPrograms() {
		text := strings.Repeat(name+" of 1.37.3\n", 200_000)
		in.Files["bin/"+name] = index.Source{ReaderAt: strings.NewReader(text), Size: int64(len(text))}
	}
	pack, err := os.Create(filepath.Join(t.TempDir(), "pack"))
	if err != nil {
		t.Fatal(err)
	}
	defer pack.Close()
	ix, err := index.WriteKubernetes(pack, in)
	if err != nil {
		t.Fatal(err)
	}
	published.PublishKubernetes(ix, pack.Name())
	trusted, err := json.Marshal(repository.Trusted{Root: published.Root()})
	if err != nil {
		t.Fatal(err)
	}

	for _, row := range []struct {
		name       string
		repository string
		trusted    string
		version    string
		want       string
	}{
		{
			"a version of the repository", published.Dir, string(trusted), "1.37.3",
			"Kubernetes 1.37.3 is fetched first: 32 MB, of which 32 MB are new here, at most 1 MB to transfer",
		},
		{
			"a version that it does not have", published.Dir, string(trusted), "1.37.4",
			"Kubernetes 1.37.4 is not on this node, and its size is not known: version 1.37.4 of " +
				"Kubernetes for " + runtime.GOARCH + ": not in the repository " + published.Dir +
				"; hint: it has 1.37.3; `loamctl kubernetes bundle` publishes others",
		},
		{
			"a repository that does not answer", "http://127.0.0.1:1", string(trusted), "1.37.3",
			"Kubernetes 1.37.3 is not on this node, and its size is not known: the repository cannot " +
				"be reached",
		},
		{
			"a repository that was never read", published.Dir, "", "1.37.3",
			"Kubernetes 1.37.3 is not on this node, and its size is not known: the node has not read " +
				"the repository " + published.Dir + " yet",
		},
		{
			"no repository", "", "", "1.37.3",
			"Kubernetes 1.37.3 is not on this node, and its size is not known: the node has no " +
				"repository; hint: set upgrade.repository in machine.yaml, or put the bundle into " +
				"/var/lib/loam/kubernetes/1.37.3",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			root, before := clusterTree(t, row.repository, row.trusted)
			after := before
			after.Kubernetes = row.version
			var out strings.Builder
			if err := planRecord(t.Context(), &out, "text", root, before, after); err != nil {
				t.Fatal(err)
			}

			for _, want := range []string{"etcd.service", "kube-apiserver.service", "\nnotes\n  " + row.want} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, out.String())
				}
			}
			if _, err := os.Stat(filepath.Join(root, bundle.Directory, row.version)); err == nil {
				t.Error("the version was fetched")
			}
		})
	}

	t.Run("a version with the next etcd", func(t *testing.T) {
		root, before := clusterTree(t, "", "")
		after := before
		after.Kubernetes = "1.37.3"
		writePrograms(t, root, before.Kubernetes, "3.6.16")
		writePrograms(t, root, after.Kubernetes, "3.7.3")
		files.Write(t, filepath.Join(root, plane.StateDirectory, "started"),
			"Kubernetes "+before.Kubernetes+"\netcd Version: 3.6.16\n")
		var out strings.Builder
		err := planRecord(t.Context(), &out, "text", root, before, after)
		const want = "\nnotes\n  etcd of Kubernetes 1.37.3 is changed alone first, "
		if err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v, no %q in\n%s", err, want, out.String())
		}
	})

	t.Run("the same version", func(t *testing.T) {
		root, before := clusterTree(t, published.Dir, string(trusted))
		after := before
		after.Audit.Policy = plane.AuditMetadata
		var out strings.Builder
		err := planRecord(t.Context(), &out, "text", root, before, after)
		if err != nil || strings.Contains(out.String(), "notes") {
			t.Errorf("%v\n%s", err, out.String())
		}
	})
}

// TestSetDoesNotReplaceAnotherRecord: the agent follows the ConfigMap while the
// command checks its file. Here etcd, which the command asks for its version, does it.
func TestSetDoesNotReplaceAnotherRecord(t *testing.T) {
	root, before := clusterTree(t, "", "")
	store := plane.NewStore(durable.New(openRoot(t, root), nil))
	followed := before
	followed.Audit.Policy = plane.AuditMetadata
	if err := store.WriteRecord(followed); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(root, "other.json")
	if err := os.Rename(filepath.Join(root, plane.RecordFile), other); err != nil {
		t.Fatal(err)
	}
	if err := store.WriteRecord(before); err != nil {
		t.Fatal(err)
	}
	files.Write(t, filepath.Join(root, plane.StateDirectory, "started"),
		"Kubernetes "+before.Kubernetes+"\netcd Version: 3.7.3\n")
	after := before
	after.Kubernetes = "1.37.3"
	writePrograms(t, root, after.Kubernetes,
		"3.7.3; cp "+other+" "+filepath.Join(root, plane.RecordFile))

	cmd := clusterSetCommand()
	cmd.SetArgs([]string{"-", "--root", root})
	cmd.SetIn(strings.NewReader(string(after.Text())))
	cmd.SetOut(io.Discard)
	err := cmd.ExecuteContext(t.Context())
	if !errors.Is(err, plane.ErrChanged) || hint.Of(err) == "" {
		t.Errorf("got %v", err)
	}
	have, _, err := store.Record()
	if err != nil || string(have.Text()) != string(followed.Text()) {
		t.Errorf("the node has %s, %v", have.Text(), err)
	}
}

// TestADamagedRecordIsReplaced by one that the cluster can have, and takes nobody's access.
func TestADamagedRecordIsReplaced(t *testing.T) {
	root, before := clusterTree(t, "", "")
	store := plane.NewStore(durable.New(openRoot(t, root), nil))
	if err := store.WriteApplied(before); err != nil {
		t.Fatal(err)
	}
	damaged := strings.Replace(string(before.Text()), `"none"`, `"all"`, 1)
	files.Write(t, filepath.Join(root, plane.RecordFile), damaged)
	run := func(input string, args ...string) (string, error) {
		cmd := clusterCommand()
		var out strings.Builder
		cmd.SetArgs(append(args, "--root", root))
		cmd.SetIn(strings.NewReader(input))
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}

	if out, err := run("", "kubeconfig"); err != nil || !strings.Contains(out, "192.0.2.10") {
		t.Errorf("kubeconfig: %v\n%s", err, out)
	}
	other := before
	other.Name = "plant-8"
	if _, err := run(string(other.Text()), "set", "-"); err == nil {
		t.Error("the name of the cluster can be changed")
	}
	good := before
	good.Audit.Policy = plane.AuditMetadata
	if _, err := run(string(good.Text()), "set", "-"); err != nil {
		t.Errorf("set: %v", err)
	}
	have, _, err := store.Record()
	if err != nil || string(have.Text()) != string(good.Text()) {
		t.Errorf("the node has %s, %v", have.Text(), err)
	}
}

// TestAKubeconfigThatNobodyCouldUse is refused.
func TestAKubeconfigThatNobodyCouldUse(t *testing.T) {
	root, _ := clusterTree(t, "", "")
	for _, flag := range []string{
		"--address=fe80::1%eth0", "--address=0.0.0.0", "--address=::", "--address=node-1", "--user=",
	} {
		cmd := kubeconfigCommand()
		cmd.SetArgs([]string{"--root", root, flag})
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		err := cmd.ExecuteContext(t.Context())
		if fault.Of(err) != fault.Usage || hint.Of(err) == "" {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func openRoot(t *testing.T, name string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}
