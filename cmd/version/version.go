// Package version says which build of a program runs. [Add] is for the root
// command of a program.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Add gives the program of a root command a command version and a flag
// --version, which print the same. release is the version of the release that
// the program belongs to. If it is "", the version that Go has recorded is
// printed.
func Add(root *cobra.Command, release string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	text := describe(root.Name(), release, info)

	root.Version = text
	root.SetVersionTemplate("{{.Version}}")
	root.AddCommand(&cobra.Command{
		Use:     "version",
		Example: "  " + root.Name() + " version",
		Short:   "Show the version, the commit and the Go version of this program",
		Long: `version shows the version, the commit and the Go version of this program. The programs
of an image carry no commit, since equal sources make equal images.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	})
}

// describe returns a line for each thing that is known.
func describe(program, release string, info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}

	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", program, cmp.Or(release, info.Main.Version, "of unknown version"))
	if commit := settings["vcs.revision"]; commit != "" {
		fmt.Fprintf(&b, "commit  %s of %s", commit, cmp.Or(settings["vcs.time"], "unknown time"))
		if settings["vcs.modified"] == "true" {
			b.WriteString(", with changes")
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "go      %s %s/%s\n", cmp.Or(strings.TrimPrefix(info.GoVersion, "go"),
		strings.TrimPrefix(runtime.Version(), "go")), runtime.GOOS, runtime.GOARCH)
	return b.String()
}
