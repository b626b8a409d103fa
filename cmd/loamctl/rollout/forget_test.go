package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/cmd/loamctl/kubeconfig"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// listingAPI is a fakeAPI that lists its Nodes.
type listingAPI struct{ fakeAPI }

// Table implements [API].
func (l listingAPI) Table(context.Context, string, string, bool) (kubeconfig.Table, error) {
	var t kubeconfig.Table
	for path, text := range l.fakeAPI {
		name, ok := strings.CutPrefix(path, nodesPath+"/")
		if !ok {
			continue
		}
		var row kubeconfig.Row
		if err := json.Unmarshal([]byte(text), &row.Object); err != nil {
			return t, err
		}
		row.Object.Metadata.Name = name
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

// poolOf returns a pool in which machines 1 to n have the turns of nodes 1 to n, and
// machine-0 has left its mark on node-0.
func poolOf(t *testing.T, n int) listingAPI {
	t.Helper()
	api := listingAPI{fakeAPI{}}
	l := turns.New()
	l.State = turns.Running
	for i := range n + 1 {
		h := turns.Holder{
			ID:      fmt.Sprint(i),
			Machine: fmt.Sprint("machine-", i),
			Node:    fmt.Sprint("node-", i),
		}
		if i > 0 {
			l.Holders[h.Machine] = h
		}
		api.fakeAPI[nodesPath+"/"+h.Node] = object(t, map[string]string{markAnnotation: h.String()})
	}
	api.fakeAPI[leasesPath+"/loam-rollout-edge"] = object(t, l.Annotations(nil))
	return api
}

// TestForgetOfAnUnknownMachineIsRefused gives names that no turn has.
func TestForgetOfAnUnknownMachineIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name, machine string
		turns         int
		hint          string
	}{
		{"mistyped", "machien-1", 2, "machines with a turn: machine-1, machine-2"},
		{"the name of its Node", "node-2", 2,
			"Node node-2 is machine machine-2: `loamctl rollout forget edge machine-2`"},
		{"without turns", "machine-1", 0, "no machine of the pool has a turn"},
		{"with many turns", "x", 22, "machines with a turn: machine-1, machine-10, machine-11, " +
			"machine-12, machine-13, machine-14, machine-15, machine-16, machine-17, machine-18, " +
			"machine-19, machine-2, machine-20, machine-21, machine-22, machine-3, machine-4, " +
			"machine-5, machine-6, machine-7, and 2 more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api := poolOf(t, tt.turns)
			before := fmt.Sprint(api)
			_, err := Rollout{API: api, Pool: "edge"}.Forget(t.Context(), tt.machine)
			if err == nil || err.Error() != "machine "+tt.machine+" has no turn in pool edge" ||
				hint.Of(err) != tt.hint || fault.Of(err) != fault.NoSuchTurn {
				t.Errorf("%v, hint %q, code %q", err, hint.Of(err), fault.Of(err))
			}
			if fmt.Sprint(api) != before {
				t.Errorf("changed to %v", api)
			}
		})
	}
}

// TestForgetTakesTheMarkOfItsMachineOnly forgets a turn, the mark that an earlier
// attempt has left, and a turn whose Node another machine has marked since.
func TestForgetTakesTheMarkOfItsMachineOnly(t *testing.T) {
	other := turns.Holder{ID: "9", Machine: "machine-9", Node: "node-2"}.String()
	for _, tt := range []struct {
		name, machine, node, mark string
		turns                     int
	}{
		{"a turn", "machine-1", "node-1", "", 1},
		{"a mark that is left", "machine-0", "node-0", "", 2},
		{"a Node of another machine", "machine-2", "node-2", other, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api := poolOf(t, 2)
			if tt.mark != "" {
				api.fakeAPI[nodesPath+"/"+tt.node] = object(t, map[string]string{markAnnotation: tt.mark})
			}
			l, err := Rollout{API: api, Pool: "edge"}.Forget(t.Context(), tt.machine)
			if err != nil || len(l.Holders) != tt.turns {
				t.Errorf("%+v, %v", l.Holders, err)
			}

			var node map[string]any
			if err := json.Unmarshal([]byte(api.fakeAPI[nodesPath+"/"+tt.node]), &node); err != nil {
				t.Fatal(err)
			}
			if mark := annotationsOf(node)[markAnnotation]; mark != tt.mark {
				t.Errorf("mark %q, want %q", mark, tt.mark)
			}
		})
	}
}

// pathsAPI is an API that records its paths.
type pathsAPI struct {
	API
	paths *[]string
}

// Do implements [API].
func (p pathsAPI) Do(ctx context.Context, method, path string, body, into any) error {
	*p.paths = append(*p.paths, path)
	return p.API.Do(ctx, method, path, body, into)
}

// TestANameLeadsToNoOtherObject has a node write into its turn what is no name of a Node,
// and a person give it.
func TestANameLeadsToNoOtherObject(t *testing.T) {
	for _, name := range []string{
		"../namespaces/kube-system/configmaps/x", "..", ".", "a/b", "a%2fb", "",
	} {
		t.Run(name, func(t *testing.T) {
			api := poolOf(t, 1)
			h := turns.Holder{ID: "1", Machine: "machine-1", Node: name}
			if name == "" {
				h.Node = "node-1"
			}
			l := turns.New()
			l.State = turns.Running
			l.Holders[h.Machine] = h
			api.fakeAPI[edgeLease] = object(t, l.Annotations(nil))
			var paths []string
			r := Rollout{API: pathsAPI{API: api, paths: &paths}, Pool: "edge"}

			_, err := r.Forget(t.Context(), "machine-1")
			if (err == nil) != (name == "") {
				t.Errorf("forget: %v", err)
			}
			if _, _, err := r.Retry(t.Context(), name); err == nil {
				t.Error("it lets the Node try once more")
			}
			r.Pool = name
			if _, err := r.Read(t.Context()); err == nil {
				t.Error("it has a ledger")
			}

			for _, asked := range paths {
				isOfKind := slices.Contains([]string{leasesPath, nodesPath}, path.Dir(asked))
				if !isOfKind || path.Clean(asked) != asked || strings.Contains(asked, "%") {
					t.Errorf("asks for %s", asked)
				}
			}
		})
	}
}
