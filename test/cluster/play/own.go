package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/cluster/testcluster"
	"github.com/loam-os/loam/test/cluster/upstream"
	"github.com/loam-os/loam/test/vm"
)

const (
	// ownNode is the name of the node.
	ownNode = "node-1"
	// ownImage is the image for pods.
	ownImage = "example.test/web:v1"

	repositoryDir = dir + "/repository"
	keysDir       = dir + "/keys"
	// host is this host for a guest.
	host = "10.0.2.2"
)

// own is a machine that is a cluster by itself.
type own struct {
	*session
	// version is the version of Kubernetes.
	version string
	// repository and images are ports of this host, api is the one that leads to
	// the API server.
	repository, images, api int
	client                  *http.Client
}

func newOwn(s *session) game {
	o := &own{session: s}
	s.plug = o.plug
	return o
}

func (o *own) stages() []stage {
	return []stage{
		{"programs of etcd, Kubernetes, CoreDNS (go build)", time.Hour, o.buildPrograms},
		{"bundle of Kubernetes in a repository", 10 * time.Minute, o.publish},
		{"machine booted", 4 * time.Minute, o.boot},
		{"cluster made, its API answers", 15 * time.Minute, o.awaitAPI},
		{"Node Ready", 8 * time.Minute, o.awaitNode},
		{"Services have names (CoreDNS)", 8 * time.Minute, o.awaitDNS},
		{"an image for pods", 4 * time.Minute, o.importImage},
	}
}

func (o *own) buildPrograms(ctx context.Context, detail io.Writer) (err error) {
	o.version, err = cluster.KubernetesVersion(ctx)
	if err != nil {
		return err
	}
	o.programs, err = cluster.Build(ctx, detail, "etcd", "coredns", "kubelet")
	return err
}

// publish makes a repository with the bundle, and serves it, and the image.
func (o *own) publish(ctx context.Context, _ io.Writer) error {
	b, err := upstream.Bundle(ctx, o.programs)
	if err != nil {
		return err
	}
	err = errors.Join(os.RemoveAll(repositoryDir), os.RemoveAll(keysDir))
	if err != nil {
		return err
	}
	err = os.Mkdir(repositoryDir, 0o755)
	if err != nil {
		return err
	}

	keys, err := publish.NewKeys(keysDir, 1)
	if err != nil {
		return err
	}
	now := time.Now()
	expiries := publish.DefaultExpiries()
	err = publish.Init(repositoryDir, keys, 1, expiries, now)
	if err != nil {
		return err
	}
	_, err = publish.PublishKubernetes(ctx, repositoryDir, keys, b.Index, b.Pack, expiries, now,
		meter.None)
	if err != nil {
		return err
	}
	return o.serve(ctx, b.Index)
}

func (o *own) serve(ctx context.Context, ix bundle.Kubernetes) error {
	web, err := testcluster.Program(ctx, ix.Arch, testcluster.Web)
	if err != nil {
		return err
	}
	image := cluster.Image{
		Arch:       ix.Arch,
		Layers:     []cluster.Layer{{"web": {Content: web, Mode: 0o755}}},
		Entrypoint: []string{"/web"},
	}

	o.repository, err = o.serveOn(http.FileServer(http.Dir(repositoryDir)))
	if err != nil {
		return err
	}
	o.images, err = o.serveOn(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		// Best effort: ctr on the node notices an end that is missing.
		_ = cluster.WriteArchive(w, map[string]cluster.Image{ownImage: image})
	}))
	return err
}

// serveOn serves on this host's loopback, and returns the port.
func (o *own) serveOn(handler http.Handler) (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // It ends with its error when it is closed.
	o.later(func() { server.Close() })
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// plug gives the machine what an operator would write. The disk is this host's,
// which other programs use, too.
func (o *own) plug(_ context.Context, config *vm.Config) error {
	m, err := readManifest(o.build)
	if err != nil {
		return err
	}
	root, err := os.ReadFile(filepath.Join(repositoryDir, "metadata/1.root.json"))
	if err != nil {
		return err
	}
	port, release, err := cluster.ReservePort("127.0.0.1")
	if err != nil {
		return err
	}
	o.later(release)
	o.api = port

	config.Host = true
	config.MemoryMB = 4096
	config.CPUs = 2
	config.Forward = map[int]int{o.api: 6443}
	config.Credentials = map[string]string{"loam.machine": fmt.Sprintf(`apiVersion: loam.dev/v1alpha1
kind: Machine
hostname: %s
debugShell: [%s]
cluster:
  init: {name: try-me, kubernetes: %s}
  allowSlowDisk: true
upgrade:
  repository: http://%s:%d
  root: %q
`, ownNode, vm.ShellTTY(m.Arch), o.version, host, o.repository, root)}
	return nil
}

// awaitAPI waits until the API server answers, and writes the kubeconfig.
func (o *own) awaitAPI(ctx context.Context, _ io.Writer) error {
	err := o.openShell()
	if err != nil {
		return err
	}
	err = poll(ctx, func() error { return o.writeKubeconfig(ctx) })
	if err != nil {
		return err
	}
	return o.await(ctx, "/readyz", func([]byte) error { return nil })
}

var apiAddress = regexp.MustCompile(`https://[^"]*:6443`)

// writeKubeconfig writes the kubeconfig that the node prints, with the address of
// this host.
func (o *own) writeKubeconfig(ctx context.Context) error {
	text, err := o.node.Shell().Run(ctx, "loam cluster kubeconfig --for 24h --address 127.0.0.1")
	if err != nil {
		return err
	}
	text = apiAddress.ReplaceAllString(text, "https://127.0.0.1:"+strconv.Itoa(o.api))

	o.client, err = clientOf(text)
	if err != nil {
		return err
	}
	_ = os.Remove(kubeconfig) // Its mode may be another.
	return os.WriteFile(kubeconfig, []byte(text), 0o600)
}

// clientOf returns a client with the keys of a kubeconfig.
func clientOf(kubeconfig string) (*http.Client, error) {
	var file struct {
		Users []struct {
			User struct {
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			}
		}
		Clusters []struct {
			Cluster struct {
				Authority []byte `json:"certificate-authority-data"`
			}
		}
	}
	err := json.Unmarshal([]byte(kubeconfig), &file)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	pair, err := tls.X509KeyPair(file.Users[0].User.Certificate, file.Users[0].User.Key)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(file.Clusters[0].Cluster.Authority)
	return &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs:      roots,
			ServerName:   pki.ServerName,
			Certificates: []tls.Certificate{pair},
		}},
	}, nil
}

func (o *own) awaitNode(ctx context.Context, _ io.Writer) error {
	return o.await(ctx, "/api/v1/nodes/"+ownNode, has(testcluster.Condition("Ready", "True")))
}

func (o *own) awaitDNS(ctx context.Context, _ io.Writer) error {
	path := "/apis/apps/v1/namespaces/" + plane.RecordNamespace + "/deployments/coredns"
	return o.await(ctx, path, has(testcluster.Condition("Available", "True")))
}

// has reads an object for right.
func has(right func(map[string]any) error) func([]byte) error {
	return func(text []byte) error {
		var object map[string]any
		err := json.Unmarshal(text, &object)
		if err != nil {
			return err
		}
		return right(object)
	}
}

// importImage gives the node an image, as it has no registry.
func (o *own) importImage(ctx context.Context, _ io.Writer) error {
	out, err := o.node.Shell().Run(ctx, fmt.Sprintf(
		"curl --silent --fail http://%s:%d/ | ctr --namespace=k8s.io images import --local -",
		host, o.images))
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// await asks the API server until it has an answer that is right.
func (o *own) await(ctx context.Context, path string, right func([]byte) error) error {
	return poll(ctx, func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet,
			"https://127.0.0.1:"+strconv.Itoa(o.api)+path, http.NoBody)
		if err != nil {
			return err
		}
		response, err := o.client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()

		text, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusOK {
			err = errors.New(strings.ToLower(response.Status))
		}
		if err == nil {
			err = right(text)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return err
	})
}

// poll calls ready once a second until it returns nil.
func poll(ctx context.Context, ready func() error) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()

	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
