package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
