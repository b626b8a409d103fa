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

const csrPath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// machine is the name of a machine whose Node has another name.
const machine = "machine-1"

// AllowAgent lets the agents of Nodes do what examples/cluster/rbac.yaml does, and no
// more. Each machine has the name of its Node, or is machine.
func (e *endpoint) AllowAgent(ctx context.Context, nodes ...string) error {
	return e.createExample(ctx, "rbac.yaml", func(text string) string {
		return rightsOf(text, nodes)
	})
}

// rightsOf returns rbac.yaml for other Nodes than node-1 and node-2.
func rightsOf(text string, nodes []string) string {
	text = strings.ReplaceAll(text, "[node-1, node-2]", "["+strings.Join(nodes, ", ")+"]")
	var b strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case strings.Contains(line, "machine:node-2"):
			b.WriteString(strings.ReplaceAll(line, "node-2", machine))
		case strings.Contains(line, "node-2"):
		case strings.Contains(line, "node-1"):
			for _, node := range nodes {
				b.WriteString(strings.ReplaceAll(line, "node-1", node))
			}
		default:
			b.WriteString(line)
		}
	}
	return b.String()
}

// RestrictAgents creates the policies of examples/cluster/admission.yaml: each agent
// changes its own Node and takes its own turn only.
func (e *endpoint) RestrictAgents(ctx context.Context) error {
	return e.createExample(ctx, "admission.yaml", strings.Clone)
}

// createExample creates the objects of a file of examples/cluster, which edit returns
// with other names.
func (e *endpoint) createExample(
	ctx context.Context, name string, edit func(text string) string,
) error {
	root, err := program.Root(ctx)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, "examples/cluster", name))
	if err != nil {
		return err
	}

	for document := range strings.SplitSeq(edit(string(text)), "\n---\n") {
		if err := e.create([]byte(document)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// create creates an object of a named group, from YAML.
func (e *endpoint) create(text []byte) error {
	var o struct {
		APIVersion string
		Kind       string
		Metadata   struct{ Namespace string }
	}
	if err := yaml.Unmarshal(text, &o); err != nil {
		return err
	}
	body, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}

	at := "/apis/" + o.APIVersion
	if o.Metadata.Namespace != "" {
		at += "/namespaces/" + o.Metadata.Namespace
	}
	plural := strings.ToLower(o.Kind) + "s"
	if stem, ok := strings.CutSuffix(plural, "ys"); ok {
		plural = stem + "ies"
	}
	_, err = e.Do(http.MethodPost, at+"/"+plural, string(body))
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
