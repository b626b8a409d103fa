package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/cmd/progress"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/redact"
)

func upgradeCommand() *cobra.Command {
	var client control.Client
	var request control.UpgradeRequest
	var permit, format string
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Bring another version of the system, and restart with it",
		Long: `upgrade writes a release of the image into the slot that does not run, and
restarts the machine to try it. Only what this machine does not have yet is
fetched, and all of it is verified before it is written. The new system stays
if the node is as well with it as before; if not, or if it does not come up, the
machine falls back by itself, and 'loam why' tells the reason.

What is cut off goes on where it was. A release that has failed on this machine
is not tried again without --again. A release that is older than the running one takes a
permit, which those sign who sign the releases: 'loamctl permit'.

--cancel ends an upgrade that is being fetched, or that waits for a restart. A new
system that runs already is left with 'loam rollback --os'.`,
		Example: `  loam upgrade
  loam upgrade --to 0.2.0 --plan
  loam upgrade --cancel
  loam upgrade --to 0.0.9 --downgrade permit.json
  loam upgrade --from http://192.0.2.1:8080 --stay`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()
			if request.Cancel {
				return cancelUpgrade(ctx, cmd, format, client)
			}
			if err := checkRelease(request); err != nil {
				return err
			}
			if permit != "" {
				var err error
				request.Permit, err = readPermit(permit)
				if err != nil {
					return err
				}
			}
			return runUpgrade(ctx, cmd, format, client, request)
		},
	}

	outcome.FormatFlag(cmd, &format, "text")
	f := cmd.Flags()
	f.StringVar(&request.Version, "to", "", "`VERSION` to bring (default: the newest)")
	f.StringVar(&request.From, "from", "",
		"`REPOSITORY`: a directory, or an http(s) or oci URL (default: as in machine.yaml)")
	f.BoolVar(&request.Plan, "plan", false, "only say what would be done, or why it is refused")
	f.BoolVar(&request.Cancel, "cancel", false,
		"end the upgrade under way, before the machine restarts with it")
	f.BoolVar(&request.Stay, "stay", false, "do not restart; the next restart tries the system")
	f.BoolVar(&request.Again, "again", false, "also a release that has failed here")
	f.StringVar(&permit, "downgrade", "",
		"`FILE` of a permit for a release that is older than the running one")
	f.BoolVar(&request.Now, "now", false,
		"do not wait for the time between two upgrades, nor for the window of restarts")
	for _, other := range []string{
		"to", "from", "plan", "stay", "again", "downgrade", "now",
	} {
		cmd.MarkFlagsMutuallyExclusive("cancel", other)
	}
	socketFlag(cmd, &client)

	return cmd
}

// checkRelease refuses what cannot be the version of a release, or a repository.
func checkRelease(request control.UpgradeRequest) error {
	if v := request.Version; v != "" && !machine.IsVersion(v) {
		return usage.Errorf("--to %q: want one version, such as 0.2.0", v)
	}
	if from := request.From; from != "" && !machine.IsRepository(from) {
		return hint.With(usage.Errorf("--from %q: not a repository", redact.URLs(from)),
			"an absolute directory, http://HOST/DIR, https://HOST/DIR or oci://HOST/NAME:TAG")
	}
	return nil
}

// readPermit reads a file, which the agent verifies.
func readPermit(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err == nil && !json.Valid(text) {
		err = hint.With(fault.With(fmt.Errorf("%s: not a permit", file), fault.NoSuchPermit),
			"`loamctl permit` makes one")
	}
	return text, err
}

// cancelUpgrade ends the upgrade under way.
func cancelUpgrade(
	ctx context.Context, cmd *cobra.Command, format string, client control.Client,
) error {
	o, err := client.Upgrade(ctx, control.UpgradeRequest{Cancel: true})
	if err != nil {
		return err
	}
	what := "the upgrade"
	if o.Version != "" { // It is "" if the repository has not named the newest one yet.
		what += " to " + o.Version
	}
	return outcome.Write(cmd.OutOrStdout(), format, o,
		func() string { return what + " is canceled; the running system stays\n" })
}

// runUpgrade asks the agent and shows how far it is meanwhile.
func runUpgrade(
	ctx context.Context,
	cmd *cobra.Command,
	format string,
	client control.Client,
	request control.UpgradeRequest,
) error {
	progress := progressTo(cmd, format)
	stop := meanwhile(ctx, func(ctx context.Context) { showProgress(ctx, progress, status.Path) })
	o, err := client.Upgrade(ctx, request)
	stop()

	var text string
	switch {
	case fault.Of(err) == fault.AlreadyRunning:
		text = hint.Text(err) + "\n"
		o = control.Outcome{Result: control.Unchanged, Reason: err.Error()}
	case err != nil:
		return networkProblem(err)
	case request.Plan:
		text = plannedText(o)
	case request.Stay:
		text = fmt.Sprintf("%s is ready: the next restart tries it\n", o.Version)
	default:
		text = fmt.Sprintf("%s is ready: the machine restarts to try it%s\n", o.Version, o.Reason)
	}

	return outcome.Write(cmd.OutOrStdout(), format, o, func() string { return text })
}

// plannedText says what an upgrade would do, and when.
func plannedText(o control.Outcome) string {
	text := fmt.Sprintf("would bring %s in place of %s, and restart%s\n",
		o.Version, o.From, cmp.Or(o.Reason, " at once"))
	if o.Size > 0 {
		text += fmt.Sprintf("at most %d MiB to fetch; what this machine has already is not fetched\n",
			(o.Size+1<<20-1)>>20)
	}
	return text
}

// networkProblem begins an error of the network with the words by which Gardener's
// node agent recognizes a command to run again. Its other words, "invalid
// arguments" and "system failure", mean to it what an error without them does.
func networkProblem(err error) error {
	code := fault.Of(err)
	ofAgent := code == fault.AgentNotRunning || code == fault.AgentRestarting
	if code.Class() != fault.ClassUnreachable || ofAgent {
		return err
	}
	return fmt.Errorf("network problems: %w", err)
}

// showProgress shows how far the agent is with a bar, and what keeps it from going
// on, until ctx ends.
func showProgress(ctx context.Context, out io.Writer, file string) {
	bar := progress.New(out)
	defer bar.Hide()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()

	problem := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}

		s, err := readStatus(file)
		if err != nil || s.Upgrade == nil || s.Upgrade.Phase != string(upgrade.Staging) {
			continue // The command ends with an error if the agent does not answer.
		}

		u := s.Upgrade
		if u.Problem != "" && u.Problem != problem {
			bar.Hide()
			fmt.Fprintf(out, "%s: %s; the agent tries again by itself\n", u.To, u.Problem)
		}
		problem = u.Problem
		if problem == "" && u.Size > 0 {
			bar.Update(u.To+" "+u.Part, u.Done, u.Size)
		}
	}
}
