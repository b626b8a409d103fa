package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/clock"
	"github.com/loam-os/loam/agent/clock/rtc"
	"github.com/loam-os/loam/agent/show"
	"github.com/loam-os/loam/cmd/outcome"
)

func clockCommand() *cobra.Command {
	var reset bool
	var format string
	cmd := &cobra.Command{
		Use:   "clock",
		Short: "Compare the clock with the hardware's, or set it from there",
		Long: `clock shows the time of the node, of the hardware's clock, and the last time that
the node has recorded, before which it never starts. With --from-hardware, it sets
the clock to the hardware's, and takes the recorded time back: a node that was
started once with a clock in the future stays there until a time server answers.
A restart of the machine afterwards renews what was issued at the later time, such as
the tokens of pods.`,
		Example: `  loam clock
  loam clock -o json
  loam clock --from-hardware`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := os.OpenRoot("/")
			if err != nil {
				return err
			}
			defer root.Close()
			built, err := clock.Built()
			if err != nil {
				return err
			}

			facts := rtc.Observe(root, time.Now(), built)
			if reset {
				return resetClock(cmd.OutOrStdout(), format, root, facts, clock.Set)
			}
			return writeClock(cmd.OutOrStdout(), format, facts)
		},
	}

	outcome.FormatFlag(cmd, &format, "text")
	cmd.Flags().BoolVar(&reset, "from-hardware", false, "set the clock to the hardware's")
	return cmd
}

// resetClock sets the clock to the hardware's, with setClock, and shows the times
// of the node afterwards.
func resetClock(
	out io.Writer, format string, root *os.Root, facts rtc.Facts, setClock func(time.Time) error,
) error {
	to, err := rtc.Reset(facts)
	if err != nil {
		return err
	}
	if err := rtc.Set(root, to, setClock); err != nil {
		return err
	}

	after := facts
	after.Now, after.Recorded = to, to
	return outcome.Write(out, format, times(after), func() string {
		return fmt.Sprintf("the clock was %s and is %s\n"+
			"`systemctl reboot` renews what was issued meanwhile, such as the tokens of pods\n",
			moment(facts.Now), moment(to))
	})
}

// writeClock shows the times of a node.
func writeClock(out io.Writer, format string, f rtc.Facts) error {
	return outcome.Write(out, format, times(f), func() string { return clockText(f) })
}

// times are the times of a node for programs.
func times(f rtc.Facts) show.Clock {
	return show.Clock{
		Now:          f.Now.UTC(),
		Synchronized: f.Synchronized,
		Hardware:     f.Hardware.UTC(),
		Recorded:     f.Recorded.UTC(),
		Doubt:        rtc.Doubt(f),
	}
}

// clockText are the times of a node for people.
func clockText(f rtc.Facts) string {
	how := ", not set by a time server in this boot"
	if f.Synchronized {
		how = ", set by a time server"
	}
	text := fmt.Sprintf("clock     %s%s\n", moment(f.Now), how)
	text += fmt.Sprintf("hardware  %s\n", moment(f.Hardware))
	text += fmt.Sprintf("recorded  %s\n", moment(f.Recorded))
	if d := rtc.Doubt(f); d != nil {
		text += "problem   " + d.Problem + "\nhint      " + d.Hint + "\n"
	}
	return text
}

// moment formats a time.
func moment(t time.Time) string {
	if t.IsZero() {
		return "none"
	}
	return t.UTC().Format("2006-01-02 15:04:05 MST")
}
