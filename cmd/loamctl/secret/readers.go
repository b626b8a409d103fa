package secret

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/hint"
)

const (
	nodesPath = "/api/v1/nodes"

	// secretLabel of a Node names the Secret that it reads.
	secretLabel = "worker.gardener.cloud/gardener-node-agent-secret-name"
	// appliedAnnotation of a Node is the checksum of the Secret that it applied.
	appliedAnnotation = "checksum/cloud-config-data"
)

// refuseUnread returns an error if the cluster has configurations and none has
// this Secret's name: it is probably misspelt, and no node would read it. An
// account that may not list gets no error.
func (s Secret) refuseUnread(ctx context.Context, api API) error {
	if s.New {
		return nil
	}

	// Best effort: the account may only be allowed to write this Secret.
	secrets, err := api.List(ctx, secretsPath, roleLabel+"="+role)
	if err != nil {
		return nil
	}
	nodes, err := api.List(ctx, nodesPath, "")
	if err != nil {
		nodes = nil
	}

	readers := map[string][]string{}
	byChecksum := map[string]string{}
	for _, one := range secrets {
		readers[one.Metadata.Name] = nil
		if sum := one.Metadata.Annotations[checksumAnnotation]; sum != "" {
			byChecksum[sum] = one.Metadata.Name
		}
	}
	for _, node := range nodes {
		name := node.Metadata.Labels[secretLabel]
		if name == "" {
			name = byChecksum[node.Metadata.Annotations[appliedAnnotation]]
		}
		if name != "" {
			readers[name] = append(readers[name], node.Metadata.Name)
		}
	}

	if _, isRead := readers[s.Name]; isRead || len(readers) == 0 {
		return nil
	}
	return s.unread(readers)
}

// unread is the error for a Secret that none of the nodes reads; readers has the
// Nodes of each Secret that is there.
func (s Secret) unread(readers map[string][]string) error {
	names := slices.Sorted(maps.Keys(readers))
	var list []string
	for _, name := range names {
		list = append(list, name+readBy(readers[name]))
	}

	err := fmt.Errorf("there is no such Secret, and no node reads it: nodes read %s",
		strings.Join(list, ", "))
	if near := document.Nearest(s.Name, names); near != "" {
		err = hint.With(err, "did you mean --name %s?", near)
	}
	return hint.With(err, "--new creates it, for nodes whose machine.yaml will name it "+
		"(source.cluster.secret)")
}

// shownNodes is how many Nodes the error names of each Secret.
const shownNodes = 3

func readBy(nodes []string) string {
	if len(nodes) == 0 {
		return ""
	}

	slices.Sort(nodes)
	shown := strings.Join(nodes[:min(len(nodes), shownNodes)], ", ")
	if more := len(nodes) - shownNodes; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return " (" + shown + ")"
}
