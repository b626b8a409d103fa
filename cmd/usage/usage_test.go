package usage_test

import (
	"errors"
	"io"
	"testing"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
)

func TestWrongArgumentsAreNamed(t *testing.T) {
	for _, test := range []struct {
		name, use string
		args      cobra.PositionalArgs
		given     []string
		want      string
	}{
		{"all that there are", "flash IMAGE DEVICE", cobra.ExactArgs(2), []string{"a", "b"}, ""},
		{
			"the second is missing",
			"flash IMAGE DEVICE",
			cobra.ExactArgs(2),
			[]string{"a"},
			"flash: want IMAGE and DEVICE; DEVICE is missing\nhint: usage: loam flash IMAGE DEVICE",
		},
		{
			"both are missing",
			"flash IMAGE DEVICE",
			cobra.ExactArgs(2),
			nil,
			"flash: want IMAGE and DEVICE; IMAGE and DEVICE are missing\n" +
				"hint: usage: loam flash IMAGE DEVICE",
		},
		{
			"the only one that is needed is missing",
			"inspect IMAGE [OTHER]",
			cobra.RangeArgs(1, 2),
			nil,
			"inspect: want IMAGE; IMAGE is missing\nhint: usage: loam inspect IMAGE [OTHER]",
		},
		{
			"one too many",
			"diff [A [B]]",
			cobra.MaximumNArgs(2),
			[]string{"a", "b", "c"},
			"diff: want [A [B]]; \"c\" is one too many\nhint: usage: loam diff [A [B]]",
		},
		{
			"no arguments",
			"reset",
			cobra.NoArgs,
			[]string{"now"},
			"reset: want no arguments; \"now\" is one too many\nhint: usage: loam reset",
		},
		{
			"an empty argument that may be left out",
			"rollback [GENERATION]",
			cobra.MaximumNArgs(1),
			[]string{""},
			"rollback: argument 1 is empty\nhint: usage: loam rollback [GENERATION]",
		},
		{
			"a flag in the line",
			"boot --facts FILE",
			cobra.NoArgs,
			[]string{"now"},
			"boot: want no arguments; \"now\" is one too many\nhint: usage: loam boot --facts FILE",
		},
		{
			"as many as there are",
			"validate PATH...",
			cobra.MinimumNArgs(1),
			nil,
			"validate: want PATH; PATH is missing\nhint: usage: loam validate PATH...",
		},
		{
			"many",
			"validate PATH...",
			cobra.MinimumNArgs(1),
			[]string{"a", "b", "c"},
			"",
		},
		{
			"a word that is not one of two",
			"schema machine|osc",
			cobra.OnlyValidArgs,
			[]string{"node"},
			"schema: \"node\": want machine or osc\nhint: usage: loam schema machine|osc",
		},
		{
			"another error",
			"serve [DIR]",
			func(*cobra.Command, []string) error { return errors.New("want DIR or --boot") },
			nil,
			"serve: want DIR or --boot\nhint: usage: loam serve [DIR]",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := &cobra.Command{Use: "loam", SilenceErrors: true, SilenceUsage: true}
			cmd := &cobra.Command{
				Use:  test.use,
				Args: test.args,
				RunE: func(*cobra.Command, []string) error { return nil },
			}
			if cmd.Name() == "schema" {
				cmd.ValidArgs = []string{"machine", "osc"}
			}
			root.AddCommand(cmd)
			usage.Explain(root)

			root.SetArgs(append([]string{cmd.Name()}, test.given...))
			root.SetOut(io.Discard)
			have := ""
			if err := root.Execute(); err != nil {
				have = hint.Text(err)
			}
			want := test.want
			if want != "" {
				want += " [flags]"
			}
			if have != want {
				t.Errorf("%q, want %q", have, want)
			}
		})
	}
}
