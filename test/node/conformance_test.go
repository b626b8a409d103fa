package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/conformance"
	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/keys"
)

// TestConformance runs conformance tests of Kubernetes, built from its module, against
// a machine that is a cluster: those that start pods. In full these are all that the list
// has for a machine, or those of the whole list that the regular expression
// LOAM_CONFORMANCE matches; make test-all runs one of each group, of those that take a
// minute or so.
func TestConformance(t *testing.T) {
	judge.Long(t, "TestAMachineIsACluster")
	parallel(t, 8*time.Minute)
	k := buildKubectl(t)
	chosen := chosenTests()
	images := serveConformanceImages(t, chosen)
	// The tests take no name of the server from a kubeconfig.
	c := newOwnClusterWith(t, "certificateNames: [127.0.0.1], ", "coredns", "kube-proxy")
	port, release, err := cluster.ReservePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	c.config.Forward = map[int]int{port: 6443}
	n := c.on(t, c.credentials)
	n.shell()
	n.awaitNode()
	n.importImage(images)
	k.use(n, port)

	tests := conformance.Cluster{
		Kubeconfig: k.config,
		Kubectl:    k.path,
		Start:      (*exec.Cmd).Start,
	}
	tests.Run(t, chosen)
	n.off()
}

// chosenTests are the conformance tests that run.
func chosenTests() []string {
	all := conformance.List()
	chosen := os.Getenv("LOAM_CONFORMANCE")
	switch {
	case !isProof():
		return conformance.OneOfEachGroup(all[conformance.Machine])
	case chosen == "":
		return slices.Concat(all[conformance.Machine], all[conformance.Slow])
	}
	return slices.DeleteFunc(slices.Concat(slices.Collect(maps.Values(all))...),
		func(name string) bool { return !regexp.MustCompile(chosen).MatchString(name) })
}

// Names of images in the tests, and what is in their place.
const (
	agnhostImage    = "registry.k8s.io/e2e-test-images/agnhost:2.66.1"
	busyboxImage    = "registry.k8s.io/e2e-test-images/busybox:1.37.0-2"
	etcdImage       = "registry.k8s.io/etcd:3.7.0-0"
	nautilusImage   = "registry.k8s.io/e2e-test-images/nautilus:1.8"
	newNginx        = "registry.k8s.io/e2e-test-images/nginx:1.28.0-2"
	nonewprivsImage = "registry.k8s.io/e2e-test-images/nonewprivs:1.4"
	oldNginx        = "registry.k8s.io/e2e-test-images/nginx:1.27.0-2"
	sampleImage     = "registry.k8s.io/e2e-test-images/sample-apiserver:1.29.2"
)

// serveConformanceImages serves an archive with the images of conformance tests, and
// returns the port. busybox and nginx, which are not in Kubernetes' module, are a
// shell in Go and another web server: the tests want programs that run and answer.
// Large images that few tests need are in it if one of those is among the tests.
func serveConformanceImages(t *testing.T, tests []string) string {
	t.Helper()
	shell := boxLayer(t)
	agnhost := cluster.Image{
		Layers:     []cluster.Layer{shell, agnhostLayer(t)},
		Entrypoint: []string{"/agnhost"},
		Command:    []string{"pause"},
		Plain:      true,
	}
	busybox := cluster.Image{
		Layers:     []cluster.Layer{shell},
		Entrypoint: []string{"/bin/sh"},
		Plain:      true,
	}
	nginx := agnhost
	nginx.Command = []string{"test-webserver"}
	nautilus := nginx
	nautilus.Layers = append(slices.Clip(nginx.Layers), cluster.Layer{
		"data.json": {Content: []byte(`{"image":"nautilus.jpg"}`)},
	})

	images := map[string]cluster.Image{
		agnhostImage:  agnhost,
		busyboxImage:  busybox,
		nautilusImage: nautilus,
		newNginx:      nginx,
		oldNginx:      nginx,
	}
	if areAbout(tests, "Sample API Server") {
		images[etcdImage] = programImage(t, "etcd", "usr/local/bin/etcd")
		images[sampleImage] = programImage(t, "sample-apiserver", "sample-apiserver")
	}
	if areAbout(tests, "AllowPrivilegeEscalation") {
		// Anyone runs it as root, unless nothing may raise its privileges.
		images[nonewprivsImage] = cluster.Image{
			Layers: []cluster.Layer{{"agnhost": {
				Content: readFile(t, cluster.Program(t, "agnhost")),
				Mode:    0o755 | fs.ModeSetuid,
			}}},
			Entrypoint: []string{"/agnhost", "nonewprivs"},
			Plain:      true,
		}
	}
	return serveOn(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		// ctr on the node notices an end that is missing.
		_ = cluster.WriteArchive(w, images)
	}))
}

// areAbout reports whether the name of one of the tests has words in it.
func areAbout(tests []string, words string) bool {
	return slices.ContainsFunc(tests, func(name string) bool { return strings.Contains(name, words) })
}

// programImage is a program at a path, and nothing else.
func programImage(t *testing.T, name, path string) cluster.Image {
	t.Helper()
	return cluster.Image{
		Layers: []cluster.Layer{{
			path: {Content: readFile(t, cluster.Program(t, name)), Mode: 0o755},
		}},
		Entrypoint: []string{"/" + path},
		Plain:      true,
	}
}

// agnhostLayer is Kubernetes' program for tests, under both of its names, with the
// certificate of its ports with TLS. The API server does not ask who issued that.
func agnhostLayer(t *testing.T) cluster.Layer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	pair := keys.Write(t, "localhost", key)
	return cluster.Layer{
		"agnhost":       {Content: readFile(t, cluster.Program(t, "agnhost")), Mode: 0o755},
		"agnhost-2":     {Link: "agnhost"},
		"localhost.crt": {Content: readFile(t, pair.CertificateFile)},
		"localhost.key": {Content: readFile(t, pair.KeyFile)},
	}
}

// boxLayer returns a shell and its commands, with the users of an image.
func boxLayer(t *testing.T) cluster.Layer {
	t.Helper()
	layer := cluster.Layer{
		"bin/busybox": {Content: readFile(t, cluster.Program(t, "box")), Mode: 0o755},
		"etc/passwd":  {Content: []byte("root:x:0:0:root:/:/bin/sh\n")},
		"etc/group":   {Content: []byte("root:x:0:\n")},
	}
	for _, name := range []string{
		"cat", "chmod", "cp", "curl", "env", "grep", "hostname", "id", "ls",
		"mkdir", "mv", "nc", "rm", "sh", "sleep", "touch",
	} {
		layer["bin/"+name] = cluster.File{Link: "busybox"}
	}
	return layer
}
