package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/journal"
	"github.com/loam-os/loam/agent/unitfile"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// agentUnit is the agent's own unit.
const agentUnit = "loam-agent.service"

func logsCommand() *cobra.Command {
	query := journal.Query{Unit: agentUnit}
	var format string
	cmd := &cobra.Command{
		Use:   "logs [UNIT]",
		Short: "Show the log of a unit",
		Long: `logs shows what a unit has logged in this boot, and what systemd has logged about
it. Without UNIT, it is the agent. A name without a dot is a service. With -o json,
each entry of the journal is an object on a line of its own, with all of its fields.`,
		Example: `  loam logs
  loam logs kubelet --lines 20
  loam logs hello.service --boot -1
  loam logs hello --follow
  loam logs kubelet -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				query.Unit = unitName(args[0])
			}
			if cmd.Flags().Changed("lines") && query.Lines < 1 {
				return hint.With(usage.Errorf("--lines %d: want 1 or more", query.Lines),
					"without --lines it is the whole log of the boot")
			}
			if err := checkRoot(query.Root); err != nil {
				return err
			}
			query.JSON = outcome.IsJSON(format)
			ctx, stop := interruptible(cmd)
			defer stop()
			return showLog(ctx, cmd.OutOrStdout(), query)
		},
	}

	outcome.FormatFlag(cmd, &format, "text")
	f := cmd.Flags()
	f.StringVar(&query.Root, "root", "/", "`DIR` in place of the root directory of the node")
	f.IntVarP(&query.Boot, "boot", "b", 0, "boot number `N`: 0 is this boot, -1 the one before")
	f.IntVarP(&query.Lines, "lines", "n", 0, "only the last `N` lines (default: all)")
	f.BoolVarP(&query.Follow, "follow", "f", false, "also what it logs from now on, until Ctrl-C")
	cmd.ValidArgsFunction = completeUnits(&query.Root, 1)
	_ = cmd.RegisterFlagCompletionFunc("boot", completeBoots(&query.Root)) // The flag exists.
	return cmd
}

// unitName returns the name of a unit as systemctl(1) completes it.
func unitName(name string) string {
	if strings.Contains(name, ".") {
		return name
	}
	return name + ".service"
}

// showLog prints a log, or says why it has nothing to print.
func showLog(ctx context.Context, out io.Writer, q journal.Query) error {
	switch {
	case q.Boot > 0:
		return hint.With(usage.Errorf("--boot %d: not a boot", q.Boot),
			"0 is this boot, -1 the one before")
	case strings.ContainsAny(q.Unit, "*?[/"): // journalctl would take it as a pattern or a path.
		return explainNoLog(q)
	}

	if q.Boot < 0 {
		boots, err := journal.Boots(ctx, q.Root)
		if err != nil {
			return err
		}
		if !slices.Contains(boots, q.Boot) {
			return noBoot(q.Boot, boots)
		}
	}

	n, err := journal.Copy(ctx, out, q)
	if err != nil || n > 0 || q.Follow {
		return err
	}
	return explainNoLog(q)
}

// noBoot is the error for a boot without a journal.
func noBoot(boot int, boots []int) error {
	err := fault.With(fmt.Errorf("--boot %d: there is no journal of that boot", boot),
		fault.NoSuchBoot)
	if len(boots) == 0 {
		return hint.With(err, "the journal is empty")
	}
	return hint.With(err, "the oldest that there is: --boot %d", boots[0])
}

// explainNoLog says why a unit has no log: there may be no unit of that name.
func explainNoLog(q journal.Query) error {
	known := unitNames(q.Root)
	if slices.Contains(known, q.Unit) {
		return hint.With(
			fault.With(
				fmt.Errorf("unit %s has logged nothing in that boot", q.Unit), fault.NothingLogged,
			),
			"`systemctl status %s` shows whether it has run", q.Unit)
	}

	err := fault.With(fmt.Errorf("unit %s: not on this node", q.Unit), fault.NoSuchUnit)
	nearest := nearestUnit(q.Unit, known)
	switch {
	case q.Unit == agentUnit:
		return hint.With(err, "run the command on a node; elsewhere it is `loam logs UNIT`")
	case nearest != "":
		return hint.With(err, "`loam logs %s`?", nearest)
	}
	return hint.With(err, "`systemctl list-units` lists them")
}

// nearestUnit returns the unit of the same type whose name looks most like name,
// "" if no name does.
func nearestUnit(name string, known []string) string {
	suffix := filepath.Ext(name)
	if !slices.Contains(unitTypes, suffix) { // The mistake may be in there.
		return document.Nearest(name, known)
	}

	var bases []string
	for _, unit := range known {
		if base, same := strings.CutSuffix(unit, suffix); same {
			bases = append(bases, base)
		}
	}
	if base := document.Nearest(strings.TrimSuffix(name, suffix), bases); base != "" {
		return base + suffix
	}
	return ""
}

// unitTypes are the suffixes of units that may have a log.
var unitTypes = []string{
	".automount", ".mount", ".path", ".scope", ".service", ".slice", ".socket", ".swap",
	".target", ".timer",
}

// unitNames returns the names of the units of a node without templates, sorted:
// those of its configuration and those of the image.
func unitNames(root string) []string {
	var names []string
	for _, dir := range []string{"etc", "run", "usr/lib"} {
		files, _ := filepath.Glob(filepath.Join(root, dir, "systemd/system/*.*"))
		for _, file := range files {
			name := filepath.Base(file)
			if slices.Contains(unitTypes, filepath.Ext(name)) && !unitfile.IsTemplate(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
