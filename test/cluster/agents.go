package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/loam-os/loam/test/program"
)

const (
	rbacPath = "/apis/rbac.authorization.k8s.io/v1"
	csrPath  = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
)

// machine is the name of a machine whose Node has another name.
const machine = "machine-1"

// AllowAgent lets the agent of a Node, whose machine has its name or is
// machine, do what examples/cluster/rbac.yaml does, and no more.
func (e *endpoint) AllowAgent(ctx context.Context, node string) error {
	root, err := program.Root(ctx)
	if err != nil {
		return err
	}

	text, err := os.ReadFile(filepath.Join(root, "examples/cluster/rbac.yaml"))
	if err != nil {
		return err
	}

	names := strings.NewReplacer("machine:node-2", "machine:"+machine, "node-1", node)
	for object := range strings.SplitSeq(names.Replace(string(text)), "\n---\n") {
		body, err := yaml.YAMLToJSON([]byte(object))
		if err != nil {
			return fmt.Errorf("rbac.yaml: %w", err)
		}
		if err := e.createRBAC(body); err != nil {
			return err
		}
	}

	return nil
}

// createRBAC creates an object of the group rbac.authorization.k8s.io.
func (e *endpoint) createRBAC(body []byte) error {
	var object struct {
		Kind     string
		Metadata struct{ Namespace string }
	}
	if err := json.Unmarshal(body, &object); err != nil {
		return fmt.Errorf("RBAC object: %w", err)
	}

	at := rbacPath
	if object.Metadata.Namespace != "" {
		at += "/namespaces/" + object.Metadata.Namespace
	}

	_, err := e.Do(http.MethodPost, at+"/"+strings.ToLower(object.Kind)+"s", string(body))
	return err
}

// ApproveAgent plays Gardener's approver: it waits for the request of a node
// agent for a certificate and approves it.
func (e *endpoint) ApproveAgent(ctx context.Context) error { return e.decide(ctx, "Approved") }

// DenyAgent waits for such a request and denies it.
func (e *endpoint) DenyAgent(ctx context.Context) error { return e.decide(ctx, "Denied") }

func (e *endpoint) decide(ctx context.Context, decision string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()

	for {
		err := e.decideOne(decision)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("a node agent's certificate request: %w: %w", ctx.Err(), err)
		}
	}
}

func (e *endpoint) decideOne(decision string) error {
	text, err := e.Do(http.MethodGet, csrPath, "")
	if err != nil {
		return err
	}

	var all struct{ Items []map[string]any }
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}

	for _, csr := range all.Items {
		name := csr["metadata"].(map[string]any)["name"].(string)
		status, _ := csr["status"].(map[string]any)
		if !strings.HasPrefix(name, "node-agent-csr-") || status["conditions"] != nil {
			continue
		}

		csr["status"] = map[string]any{"conditions": []any{
			map[string]any{
				"type":    decision,
				"status":  "True",
				"reason":  "Test",
				"message": "test",
			},
		}}

		body, err := json.Marshal(csr)
		if err == nil {
			_, err = e.Do(http.MethodPut, csrPath+"/"+name+"/approval", string(body))
		}

		return err
	}

	return errors.New("there is none")
}
