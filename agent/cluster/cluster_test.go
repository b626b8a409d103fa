package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/test/files"
)

// A document of the cluster is decoded as the cluster's own agent decodes it.
func TestReadReturnsADocumentFromTheCluster(t *testing.T) {
	root := files.Root(t)

	c := New(Config{Server: "https://api", SecretName: "pool-1"}, Env{Root: root, Now: time.Now})
	c.released.set(&pendingConfig{text: []byte("spec: {}"), sum: "1"})

	got, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	want := source.Document{
		Name:        "Secret kube-system/pool-1",
		Text:        []byte("spec: {}"),
		Version:     "1",
		FromCluster: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Read (-want +got):\n%s", diff)
	}
}

// A node that was refused, and joins later, is not refused any more.
func TestJoiningEndsTheRefusal(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()

	root := files.Root(t)
	config := Config{
		Server:     server.URL,
		CA:         pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		SecretName: "pool-1",
		Machine:    "node-1",
	}
	c := New(config, Env{
		Root:   root,
		Token:  "abcdef.0123456789abcdef",
		Now:    time.Now,
		Uptime: func() time.Duration { return 0 },
		Part:   func() float64 { return 0 },
		Log:    zap.NewNop(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(ctx)
	}()
	defer func() {
		cancel()
		<-ended
	}()

	for c.Link().Problem == "" {
		<-c.Linked()
	}
	who := selfSigned(t)
	if err := credentials.Open(root).Save(config.target(), who); err != nil {
		t.Fatal(err)
	}
	for c.Link().Expires.IsZero() {
		<-c.Linked()
	}

	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if p, refused := c.link.problems["join"]; refused {
		t.Errorf("after it has joined: %+v", p)
	}
}

func selfSigned(t *testing.T) credentials.Credentials {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return credentials.Credentials{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
	}
}
