package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/cmd/loamctl/show"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/cmd/progress"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/image/repository"
)

// wavesFlag is how the waves of a release are written.
const wavesFlag = "a release reaches these `SHARES` of the machines, each at once or after a time, " +
	"such as 1%,25%@24h,100%@72h"

func wavesCommand() *cobra.Command {
	var o repositoryOptions
	var version, set, format string
	var all bool
	cmd := &cobra.Command{
		Use:   "waves",
		Short: "Say when a release reaches which share of the machines",
		Long: `waves shows the waves of a release in a repository, or sets them: 1%,25%@24h,100%@72h reaches one
machine in a hundred at once, a quarter of them after 24 hours, and the others after 72. In place
of such a time, RFC 3339 will do (2026-12-01T06:00:00Z). A machine takes its place among the others
from its ID and the version, so another release begins with other machines.

The waves are signed in the metadata of the repository. Machines that share nothing else spread a
release by them: 'upgrade.version: newest' in machine.yaml follows the repository, and a version
that it names waits for its wave, too. 'loam upgrade --now' and a cluster that asks for a version
do not wait. Set other waves to hurry, or to stop: 1%@0s alone reaches no further machine. Without
waves, a release reaches all machines at once.`,
		Example: `  loamctl waves --repository updates --version 0.2.0
  loamctl waves --repository updates --keys keys --version 0.2.0 --set 1%,25%@24h,100%@72h
  loamctl waves --repository updates --keys keys --version 0.2.0 --all`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			now := time.Now()
			waves, err := parseWaves(set, now)
			if err != nil {
				return usage.Errorf("--set %s: %w", set, err)
			}
			if set == "" && !all {
				releases, err := publish.Releases(cmd.Context(), o.repository, version)
				if err != nil {
					return err
				}
				return printWaves(cmd.OutOrStdout(), format, releases)
			}

			edit, err := o.edit(cmd, version, now)
			if err != nil {
				return err
			}
			bar := progress.New(cmd.ErrOrStderr())
			defer bar.Close()
			edit.Report = bar.Update
			releases, err := edit.SetWaves(cmd.Context(), waves)
			if err != nil {
				return err
			}
			for i := range releases {
				releases[i].Waves = waves
			}
			return printWaves(cmd.OutOrStdout(), format, releases)
		},
	}

	f := cmd.Flags()
	o.changeFlags(f)
	f.StringVar(&version, "version", "", "`VERSION` of the release (required)")
	f.Lookup("keys").Usage = "`DIR` with the keys that sign it, for --set and --all"
	f.StringVar(&set, "set", "", wavesFlag)
	f.BoolVar(&all, "all", false, "the release reaches all machines at once")
	_ = errors.Join(cmd.MarkFlagRequired("repository"), cmd.MarkFlagRequired("version"))
	cmd.MarkFlagsMutuallyExclusive("set", "all")
	outcome.FormatFlag(cmd, &format, "text")
	return cmd
}

// parseWaves reads SHARE[%][@AFTER],…: AFTER is a time after now, or a time of RFC 3339.
func parseWaves(text string, now time.Time) ([]repository.Wave, error) {
	if text == "" {
		return nil, nil
	}

	const want = "write one such as 1%,25%@24h,100%@72h"
	var waves []repository.Wave
	for part := range strings.SplitSeq(text, ",") {
		share, after, hasTime := strings.Cut(part, "@")
		percent, err := strconv.Atoi(strings.TrimSuffix(share, "%"))
		if err != nil {
			return nil, hint.With(fmt.Errorf("%q is no share of the machines, in whole percent", share), "%s", want)
		}

		w := repository.Wave{After: now, Share: percent}
		if hasTime {
			w.After, err = parseAfter(after, now)
		}
		if err != nil {
			return nil, hint.With(fmt.Errorf("%q is neither a duration nor a time", after), "%s", want)
		}
		w.After = w.After.UTC().Truncate(time.Second)
		waves = append(waves, w)
	}

	if err := repository.CheckWaves(waves); err != nil {
		return nil, hint.With(err, "%s", want)
	}
	return waves, nil
}

func parseAfter(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(d), nil
	}
	return time.Parse(time.RFC3339, text)
}

// printWaves prints the waves of releases, one release a line.
func printWaves(out io.Writer, format string, releases []repository.Release) error {
	all := show.NewWaves(releases)
	return outcome.Write(out, format, all, func() string {
		var text strings.Builder
		for _, w := range all {
			text.WriteString(w.Text())
		}
		return text.String()
	})
}

func withdrawCommand() *cobra.Command {
	var o repositoryOptions
	var sums sumsOptions
	var version string
	cmd := &cobra.Command{
		Use:   "withdraw",
		Short: "Take a release out of a repository",
		Long: `withdraw takes a release out of the signed metadata, so that no machine begins an upgrade to it.
A machine that has fetched it and waits for its restart drops it, unless a person was in a hurry;
one that runs it stays as it is. Copy the repository to where machines read it ('loamctl publish')
for them to see that.

The files of the release stay in the repository: 'loamctl bundle' of the same build brings it
back.`,
		Example: `  loamctl withdraw --repository updates --keys keys --version 0.2.0`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			edit, err := o.edit(cmd, version, time.Now())
			if err != nil {
				return err
			}
			signSums, err := sums.signer()
			if err != nil {
				return err
			}

			bar := progress.New(cmd.ErrOrStderr())
			defer bar.Close()
			edit.Report = bar.Update
			releases, err := edit.Withdraw(cmd.Context(), signSums)
			if err != nil {
				return err
			}
			for _, r := range releases {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s, %s: withdrawn from %s\n", r.ImageID,
					r.Version, r.Arch, o.repository)
				if err != nil {
					return err
				}
			}
			return nil
		},
	}

	f := cmd.Flags()
	o.changeFlags(f)
	sums.flags(f)
	f.StringVar(&version, "version", "", "`VERSION` of the release (required)")
	_ = errors.Join(cmd.MarkFlagRequired("repository"), cmd.MarkFlagRequired("version"),
		cmd.MarkFlagRequired("keys"))
	return cmd
}
