package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/offline"
	"github.com/loam-os/loam/agent/show"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

func diffCommand() *cobra.Command {
	var env offline.Env
	var format string
	var secrets, stat bool
	cmd := &cobra.Command{
		Use:   "diff [A [B]]",
		Short: "Show what differs between two generations",
		Long: `diff shows which files, links and units differ between generations A and B, and
the lines of text that differ. A generation is a number, a name or "current". Without B
it is the current one; without A, the one that the node ran before B.

Content that others than its owner may not read is not shown without --secrets.`,
		Example: `  loam diff
  loam diff --stat
  loam diff 41
  loam diff 40 41`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				if err := checkGeneration(arg); err != nil && arg != current {
					return err
				}
			}
			return look(env, func(node *offline.Node) error {
				c, err := choose(node, args)
				if err != nil {
					return err
				}

				c.Secrets = secrets
				d := c.Difference()
				text := d.String
				if stat {
					text = d.Stat
				}
				return outcome.Write(cmd.OutOrStdout(), format, d, text)
			})
		},
	}

	rootFlag(cmd, &env)
	cmd.ValidArgsFunction = completeGenerations(&env, 2)
	outcome.FormatFlag(cmd, &format, "text")
	cmd.Flags().BoolVar(&secrets, "secrets", false, "show also what only its owner may read")
	cmd.Flags().BoolVar(&stat, "stat", false, "of each file only count the lines")

	return cmd
}

// current is the name that an operator gives to the current generation.
const current = "current"

// checkGeneration refuses what cannot be the number or the name of a generation.
func checkGeneration(arg string) error {
	if generation.IsReference(arg) {
		return nil
	}
	return hint.With(usage.Errorf("generation %q: want a number such as 41, or a name", arg),
		"`loam history` lists them")
}

// choose finds the generations to compare.
func choose(node *offline.Node, args []string) (show.Comparison, error) {
	g := generations{node, generation.Read(node.State)}
	a := ""
	b := current

	if len(args) > 0 {
		a = args[0]
	}
	if len(args) > 1 {
		b = args[1]
	}

	to, err := g.find(b)
	if err != nil {
		return show.Comparison{}, err
	}

	var from generation.Manifest
	if a == "" {
		from, err = g.before(to)
	} else {
		from, err = g.find(a)
	}

	return show.Comparison{From: from, To: to, Read: g.read}, err
}

type generations struct {
	node   *offline.Node
	reader generation.Reader
}

// find is the generation of that number or name, or the current one.
func (g generations) find(name string) (generation.Manifest, error) {
	if name == current {
		m, ok, err := g.node.Current()
		if err == nil && !ok {
			err = fault.With(errors.New("the node has no generation yet"), fault.NoSuchGeneration)
		}
		return m, err
	}

	names, err := g.reader.List()
	if err != nil {
		return generation.Manifest{}, err
	}

	for _, known := range slices.Backward(names) {
		m, err := g.reader.Load(known)
		if err != nil || m.Is(name) {
			return m, err
		}
	}

	return generation.Manifest{}, hint.With(
		fault.With(fmt.Errorf("generation %s: not on this node", name), fault.NoSuchGeneration),
		"`loam history` lists them",
	)
}

// before is the generation that the node ran before m: of a change under way the
// one that it goes back to, or else the newest of the same OS version that has
// proven itself. A trial that has expired is neither.
func (g generations) before(m generation.Manifest) (generation.Manifest, error) {
	journal, under, err := g.reader.Journal()
	if err != nil {
		return generation.Manifest{}, err
	}
	if under && journal.To == m.Name() && journal.Good != "" && journal.Back == "" {
		return g.reader.Load(journal.Good)
	}

	proven, err := apply.Proven(g.node.State)
	if err != nil {
		return generation.Manifest{}, err
	}
	names, err := g.reader.List()
	if err != nil {
		return generation.Manifest{}, err
	}

	for _, name := range slices.Backward(names) {
		if !proven(name) {
			continue
		}
		earlier, err := g.reader.Load(name)
		if err != nil || (earlier.Number < m.Number && earlier.OSVersion == m.OSVersion) {
			return earlier, err
		}
	}
	return generation.Manifest{}, hint.With(
		fault.With(fmt.Errorf("no generation before %s has proven itself on this node", m.Name()),
			fault.NothingBefore),
		"name two, `loam history` lists them",
	)
}

func (g generations) read(e generation.Entry) ([]byte, error) {
	f, err := g.reader.Open(e)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
