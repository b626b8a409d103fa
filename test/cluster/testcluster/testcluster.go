// Package testcluster is a cluster with what nodes of it are made of: their
// images in its registry, their configuration and their machines.
package testcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/vm"
)

const (
	// Node is the name of the one node.
	Node = "hello"
	// Secret of kube-system has the node's configuration.
	Secret = "gardener-node-agent-pool"
	// Token is a Secret of kube-system, and its key, that the node keeps in
	// TokenPath.
	Token     = "token"
	TokenPath = "/var/lib/thing/token"

	secretsAPI = "/api/v1/namespaces/kube-system/secrets"
	// NodeAPI is the path of the Node.
	NodeAPI = "/api/v1/nodes/" + Node
)

// kubeletPort is where the API server finds the kubelet of a guest, which
// QEMU's user networking gives this address.
const (
	guestAddress = "10.0.2.15"
	kubeletPort  = 10250
)

// Fixture is a control plane with controllers and scheduler, and a registry.
type Fixture struct {
	*cluster.Cluster
	Registry *cluster.Registry
	Arch     string // of the node

	// Nodes are the names of the nodes, nil for the one that is Node.
	Nodes []string

	// Policy is how the nodes take turns, "" for no turns.
	Policy string
}

// Prepare brings what a node needs: images, a token, and leave for its agent.
// kubelet is the file of that program.
func (f *Fixture) Prepare(ctx context.Context, kubelet string) error {
	nodes := f.Nodes
	if nodes == nil {
		nodes = []string{Node}
	}
	if err := f.AllowAgent(ctx, nodes...); err != nil {
		return err
	}
	if err := f.pushImages(ctx, kubelet); err != nil {
		return err
	}
	return f.Put(Token, Token, "first")
}

// Put creates or updates a Secret of kube-system, which has the policy if it is the
// nodes' configuration.
func (f *Fixture) Put(name, key, value string) error {
	metadata := map[string]any{"name": name}
	if name == Secret && f.Policy != "" {
		metadata["annotations"] = map[string]string{"rollout.loam.dev/policy": f.Policy}
	}
	body, err := json.Marshal(map[string]any{
		"metadata":   metadata,
		"stringData": map[string]string{key: value},
	})
	if err != nil {
		return err
	}

	var missing *cluster.StatusError
	_, err = f.Do(http.MethodPut, secretsAPI+"/"+name, string(body))
	if errors.As(err, &missing) && missing.Code == http.StatusNotFound {
		_, err = f.Do(http.MethodPost, secretsAPI, string(body))
	}

	return err
}

// Connect makes a machine to be part of the test cluster: it reaches this host,
// the API server reaches its kubelet, and there is memory for pods.
func (f *Fixture) Connect(c *vm.Config) error {
	port, err := f.ReservePort()
	if err != nil {
		return err
	}

	c.Host = true
	c.Forward = map[int]int{port: kubeletPort}
	c.MemoryMB = 3072
	f.Route(fmt.Sprintf("%s:%d", guestAddress, kubeletPort), fmt.Sprintf("127.0.0.1:%d", port))

	return nil
}
