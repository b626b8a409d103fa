package rollout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/cmd/loamctl/kubeconfig"
	"github.com/loam-os/loam/hint"
)

const (
	secretsPath      = "/api/v1/namespaces/kube-system/secrets"
	secretPrefix     = "gardener-node-agent-"
	policyAnnotation = "rollout.loam.dev/policy"
	poolLabel        = "worker.gardener.cloud/pool"
	zoneLabel        = "topology.kubernetes.io/zone"
	pinnedLabel      = "loam.dev/pinned"
	canaryLabel      = "loam.dev/canary"
	heldAnnotation   = "loam.dev/held"

	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
)

// Plan is what the policy of a pool lets its nodes do now.
type Plan struct {
	// Pool is the name of the pool.
	Pool string `json:"pool"`

	// Policy says what it allows.
	Policy string `json:"policy"`

	// Nodes is how many the pool has.
	Nodes int `json:"nodes"`
	// MayBeAway is how many of them may be away at once.
	MayBeAway int `json:"mayBeAway"`
	// Away are those that are away now.
	Away []Away `json:"away"`

	// ControlPlanes have the role of a control plane: one of them is away at a time,
	// whatever the policy says.
	ControlPlanes []string `json:"controlPlanes"`

	// Canaries go first.
	Canaries []string `json:"canaries"`
	// Pinned do not change.
	Pinned []string `json:"pinned"`
	// Held keep their system, by their machine.yaml.
	Held []Pinned `json:"held"`

	// Problems are what keeps nodes from changing, or is not as the policy
	// means it.
	Problems []string `json:"problems"`
}

// Plan returns what the policy of the pool allows, as of now.
func (r Rollout) Plan(ctx context.Context, now time.Time) (Plan, error) {
	p, err := r.policy(ctx)
	if err != nil {
		return Plan{}, err
	}

	plan := Plan{
		Pool:          r.Pool,
		Away:          []Away{},
		ControlPlanes: []string{},
		Canaries:      []string{},
		Pinned:        []string{},
		Held:          []Pinned{},
		Problems:      []string{},
	}
	nodes, err := r.planNodes(ctx, p, &plan)
	if err != nil {
		return Plan{}, err
	}

	l, err := r.planLedgers(ctx, nodes.selector, &plan)
	if err != nil {
		return Plan{}, err
	}
	late := overdue(p, l, nodes.marks, now)
	plan.Problems = append(plan.Problems, outOfBounds(p, l, r.Pool, late)...)

	size := plan.Nodes - len(plan.Pinned)
	plan.Policy = Describe(p, size, now)
	plan.MayBeAway = min(p.MayBeAway(size), size)
	if away := len(plan.Away); away >= plan.MayBeAway {
		plan.add("%d of %d nodes are away: no node may begin", away, plan.MayBeAway)
	}
	if plan.Nodes > 0 && len(plan.Pinned) == plan.Nodes {
		plan.add("all nodes are pinned: none may begin")
	}
	return plan, nil
}

func (p *Plan) add(format string, args ...any) {
	p.Problems = append(p.Problems, fmt.Sprintf(format, args...))
}

// policy reads the policy of the pool from its Secret.
func (r Rollout) policy(ctx context.Context) (turns.Policy, error) {
	name := r.Pool
	if !strings.HasPrefix(name, secretPrefix) {
		name = secretPrefix + name
	}

	var secret map[string]any
	err := do(ctx, r.API, http.MethodGet, secretsPath, name, nil, &secret)
	if err != nil {
		return turns.Policy{}, fmt.Errorf("read Secret kube-system/%s: %w", name, err)
	}
	text, ok := annotationsOf(secret)[policyAnnotation]
	if !ok {
		return turns.Policy{}, hint.With(
			fmt.Errorf("no policy in Secret kube-system/%s: its nodes take no turns", name),
			"write one into its annotation %s; `loamctl rollout policy FILE` checks it",
			policyAnnotation)
	}
	return turns.ParsePolicy("annotation "+policyAnnotation, []byte(text))
}

// listed is what a list of the Nodes of a pool shows beside the [Plan].
type listed struct {
	// selector is the label selector that its nodes write into the ledger, "" for all.
	selector string

	// marks are those of the Nodes, "" of one without.
	marks map[string]string
}

// planNodes adds to a plan what the Nodes of the pool say.
func (r Rollout) planNodes(ctx context.Context, p turns.Policy, plan *Plan) (listed, error) {
	selector := p.Nodes
	pool := strings.TrimPrefix(r.Pool, secretPrefix)
	table, err := r.API.Table(ctx, nodesPath, selector, true)
	if err != nil {
		return listed{}, fmt.Errorf("list the Nodes: %w", err)
	}
	status := column(table, "Status")
	if status < 0 {
		return listed{}, fmt.Errorf("list the Nodes: no column Status")
	}

	labelled := slices.ContainsFunc(table.Rows, func(row kubeconfig.Row) bool {
		return row.Object.Metadata.Labels[poolLabel] == pool
	})
	nodes := listed{selector: selector, marks: map[string]string{}}
	if selector == "" && labelled {
		nodes.selector = poolLabel + "=" + pool
	}
	without := map[string]int{}
	for _, row := range table.Rows {
		of := row.Object.Metadata
		if len(row.Cells) <= status || (selector == "" && labelled && of.Labels[poolLabel] != pool) {
			continue
		}

		plan.Nodes++
		nodes.marks[of.Name] = of.Annotations[markAnnotation]
		_, isControlPlane := of.Labels[controlPlaneLabel]
		if isControlPlane {
			plan.ControlPlanes = append(plan.ControlPlanes, of.Name)
		}
		if text := fmt.Sprint(row.Cells[status]); text != "Ready" {
			plan.Away = append(plan.Away, Away{Node: of.Name, Status: text})
			if isControlPlane {
				plan.add("control plane %s is away: no other one may begin", of.Name)
			}
		}
		if _, ok := of.Labels[canaryLabel]; ok {
			plan.Canaries = append(plan.Canaries, of.Name)
		}
		if _, ok := of.Labels[pinnedLabel]; ok {
			plan.Pinned = append(plan.Pinned, of.Name)
		}
		if why, ok := of.Annotations[heldAnnotation]; ok {
			plan.Held = append(plan.Held, Pinned{Node: of.Name, Why: why})
		}
		for _, label := range labelsOf(p) {
			if of.Labels[label] == "" {
				without[label]++
			}
		}
	}

	if plan.Nodes == 0 {
		plan.add("the policy selects no Node: none may begin")
	}
	for _, label := range labelsOf(p) {
		if n := without[label]; n > 0 {
			plan.add("%d Nodes have no label %s: they count as one zone or rack", n, label)
		}
	}
	return nodes, nil
}

// planLedgers adds to a plan what the ledger of the pool keeps from going on, and that
// another one is about the same Nodes: each would let as many of them be away as the
// policy allows. selector is the one of the nodes of the pool. It returns the ledger of the
// pool, the zero Ledger if it has none.
func (r Rollout) planLedgers(
	ctx context.Context, selector string, plan *Plan,
) (of turns.Ledger, err error) {
	leases, err := r.API.List(ctx, leasesPath, "")
	if err != nil {
		return of, fmt.Errorf("list the ledgers: %w", err)
	}

	pool := strings.TrimPrefix(r.Pool, secretPrefix)
	own := []string{prefix + r.Pool, r.Pool}
	for _, lease := range leases {
		name := lease.Metadata.Name
		l, err := turns.ReadLedger(lease.Metadata.Annotations)
		if err != nil {
			continue
		}
		if slices.Contains(own, name) {
			of = l
			plan.Problems = append(plan.Problems, stops(r.Pool, l)...)
			continue
		}
		switch {
		case l.Nodes != "" && (l.Nodes == selector || l.Nodes == poolLabel+"="+pool):
			plan.add("the ledger in Lease %s is about the same Nodes (%s): delete the one whose "+
				"nodes have another Secret now", name, line(l.Nodes))
		case selector == "" || (l.Nodes == "" && hasBegun(l)):
			plan.add("the ledger in Lease %s is about the same Nodes (%s): write a label selector into "+
				"nodes of both policies, or delete the Lease that no node uses now", name,
				cmp.Or(line(l.Nodes), "all"))
		}
	}
	return of, nil
}

// hasBegun reports whether a turn was taken since a ledger was made, which has the
// selector of its nodes since then.
func hasBegun(l turns.Ledger) bool {
	return len(l.Holders) > 0 ||
		slices.ContainsFunc(rolloutsOf(l), func(r turns.Rollout) bool { return !r.Begun.IsZero() })
}

// stops returns why nodes take no turns by the ledger of a pool.
func stops(pool string, l turns.Ledger) []string {
	var all []string
	if l.State == turns.Paused {
		all = append(all, "paused: "+line(l.Why))
	}
	if l.Halted != "" {
		all = append(all, "the configuration is halted: "+line(l.Halted))
	}
	for _, target := range slices.Sorted(maps.Keys(l.Systems)) {
		if s := l.Systems[target]; s.Halted != "" {
			all = append(all, fmt.Sprintf("version %s is halted: %s", line(s.Version),
				line(s.Halted)))
		}
	}
	for _, halt := range keptHalts(l) {
		all = append(all, halt.String())
	}
	if len(all) > 0 {
		all = append(all, Resumes(pool, l))
	}
	return all
}

// labelsOf returns the labels that the limits of a policy need.
func labelsOf(p turns.Policy) []string {
	var labels []string
	if p.PerZone != (turns.Amount{}) {
		labels = append(labels, zoneLabel)
	}
	if p.PerRack != (turns.Amount{}) {
		labels = append(labels, p.RackLabel)
	}
	return labels
}

// String returns the plan as a page.
func (p Plan) String() string {
	var page strings.Builder
	out := tabwriter.NewWriter(&page, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "pool\t%s, %d nodes\n", p.Pool, p.Nodes)
	fmt.Fprintf(out, "policy\t%s\n", p.Policy)
	fmt.Fprintf(out, "away\t%d of %d\n", len(p.Away), p.MayBeAway)
	for _, a := range p.Away[:min(most, len(p.Away))] {
		fmt.Fprintf(out, "\t%s\t%s\n", a.Node, a.Status)
	}
	rest(out, len(p.Away))

	if n := len(p.ControlPlanes); n > 0 {
		fmt.Fprintf(out, "control planes\t%d, of which 1 may be away\n", n)
	}
	var held []string
	for _, h := range p.Held {
		held = append(held, h.Node+"\t"+line(h.Why))
	}
	for _, list := range []struct {
		label string
		of    []string
	}{
		{"first", p.Canaries},
		{"pinned", p.Pinned},
		{"no upgrade", held},
		{"problem", p.Problems},
	} {
		for _, text := range list.of[:min(most, len(list.of))] {
			fmt.Fprintf(out, "%s\t%s\n", list.label, text)
		}
		rest(out, len(list.of))
	}
	_ = out.Flush() // A builder takes everything.
	return page.String()
}
