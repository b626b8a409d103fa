package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/clock"
	"github.com/loam-os/loam/agent/clock/rtc"
)

func clockCommand() *cobra.Command {
	var reset bool
	cmd := &cobra.Command{
		Use:   "clock",
		Short: "Compare the clock with the hardware's, or set it from there",
		Long: `clock shows the time of the node, of the hardware's clock, and the last time that
the node has recorded, before which it never starts. With --from-hardware, it sets
the clock to the hardware's, and takes the recorded time back: a node that was
started once with a clock in the future stays there until a time server answers.
A restart of the machine afterwards renews what was issued at the later time, such as
the tokens of pods.`,
		Example: "  loam clock\n  loam clock --from-hardware",
		Args:    cobra.NoArgs,
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
			if !reset {
				return writeClock(cmd.OutOrStdout(), facts)
			}
			return resetClock(cmd.OutOrStdout(), root, facts, clock.Set)
		},
	}

	cmd.Flags().BoolVar(&reset, "from-hardware", false, "set the clock to the hardware's")
	return cmd
}

// resetClock sets the clock to the hardware's, with setClock.
func resetClock(
	out io.Writer, root *os.Root, facts rtc.Facts, setClock func(time.Time) error,
) error {
	to, err := rtc.Reset(facts)
	if err != nil {
		return err
	}
	if err := rtc.Set(root, to, setClock); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "the clock was %s and is %s\n"+
		"`systemctl reboot` renews what was issued meanwhile, such as the tokens of pods\n",
		moment(facts.Now), moment(to))
	return err
}

// writeClock shows the times of a node.
func writeClock(out io.Writer, f rtc.Facts) error {
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
	_, err := io.WriteString(out, text)
	return err
}

// moment formats a time.
func moment(t time.Time) string {
	if t.IsZero() {
		return "none"
	}
	return t.UTC().Format("2006-01-02 15:04:05 MST")
}
