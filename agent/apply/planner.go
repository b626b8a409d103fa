package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plan"
	"github.com/loam-os/loam/agent/unit"
)

// Observer is what a planner asks of systemd.
type Observer interface {
	Show(ctx context.Context, names []string) ([]unit.State, error)
}

// Planner works out what an apply would do. It has nothing with which it could
// change the node.
type Planner struct {
	// State is /var/lib/loam, Node the running root directory, Image the root
	// directory of the image without anything mounted over it.
	State generation.Reader
	Node  fs.FS
	Image fs.FS

	// Catalog is the units of Image.
	Catalog *generation.Catalog
	Units   Observer

	// OSVersion is the running image's IMAGE_VERSION.
	OSVersion string
}

// Plan returns what Apply would do.
func (p Planner) Plan(ctx context.Context, d config.Desired, source string) (plan.Plan, error) {
	c, err := p.change(ctx, Request{Desired: d, Source: source})
	return c.plan, err
}

// change is one step from a generation to the next.
type change struct {
	have, want generation.Manifest
	content    map[string]config.Content
	plan       plan.Plan
	// states are the units as they were before.
	states []unit.State
}

// change observes the node and decides on the change that r asks for.
func (p Planner) change(ctx context.Context, r Request) (change, error) {
	d := r.Desired
	vendor, err := p.Catalog.Read(d)
	if err != nil {
		return change{}, err
	}

	tree, err := generation.Expand(d, vendor)
	if err != nil {
		return change{}, err
	}

	have, _, err := p.State.Current(p.OSVersion)
	if err != nil && !errors.Is(err, generation.ErrIncomplete) {
		return change{}, err
	}

	number, err := p.State.Next()
	if err != nil {
		return change{}, err
	}

	if err := generation.Obstructed(p.Node, p.Image, tree.Entries, have); err != nil {
		return change{}, err
	}

	dirs, err := generation.MissingDirs(p.Node, tree.Entries, have)
	if err != nil {
		return change{}, err
	}

	c, err := p.between(ctx, have, generation.Manifest{
		Number:    number,
		Digest:    r.digest(),
		OSVersion: p.OSVersion,
		Source:    r.Source,
		Entries:   tree.Entries,
		Units:     tree.Units,
		Dirs:      dirs,
		Synced:    d.Synced,
	})

	c.content = tree.Content
	return c, err
}

// between decides on the change from one generation to another.
func (p Planner) between(ctx context.Context, have, want generation.Manifest) (change, error) {
	states, err := p.observe(ctx, plan.Names(have, want))
	if err != nil {
		return change{}, fmt.Errorf("observe units: %w", err)
	}

	observed := plan.Observed{}
	for _, s := range states {
		observed[s.Name] = s
	}

	return change{
		have:   have,
		want:   want,
		plan:   plan.Diff(have, want, observed),
		states: states,
	}, nil
}

// observe returns the states of the named units, and of the units bound by
// them.
func (p Planner) observe(ctx context.Context, names []string) ([]unit.State, error) {
	var all []unit.State
	seen := map[string]bool{}
	for len(names) > 0 {
		states, err := p.Units.Show(ctx, names)
		if err != nil {
			return nil, err
		}

		all = append(all, states...)
		for _, name := range names {
			seen[name] = true
		}

		names = nil
		for _, s := range states {
			for _, bound := range s.BoundBy {
				if !seen[bound] {
					seen[bound] = true
					names = append(names, bound)
				}
			}
		}
	}

	return all, nil
}
