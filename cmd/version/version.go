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

	"github.com/loam-os/loam/cmd/outcome"
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
	version := describe(root.Name(), release, info)

	root.Version = version.String()
	root.SetVersionTemplate("{{.Version}}")
	var format string
	cmd := &cobra.Command{
		Use:     "version",
		Example: "  " + root.Name() + " version\n  " + root.Name() + " version -o json",
		Short:   "Show the version, the commit and the Go version of this program",
		Long: `version shows the version, the commit and the Go version of this program. The programs
of an image carry no commit, since equal sources make equal images.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return outcome.Write(cmd.OutOrStdout(), format, version, version.String)
		},
	}
	outcome.FormatFlag(cmd, &format, "text")
	root.AddCommand(cmd)
}

// Version says which build of a program this is.
type Version struct {
	// Program is the name of the program.
	Program string `json:"program"`

	// Version is the version of its release, absent if it is not known.
	Version string `json:"version,omitempty"`

	// Commit is the commit that it was built from. The programs of an image have
	// none.
	Commit string `json:"commit,omitempty"`
	// CommitTime is when that was made.
	CommitTime string `json:"commitTime,omitempty"`
	// Modified says that there were changes besides.
	Modified bool `json:"modified,omitempty"`

	// Go is the version of the Go toolchain that built it.
	Go string `json:"go"`
	// Platform is what it runs on, such as linux/amd64.
	Platform string `json:"platform"`
}

// describe returns what is known of a program.
func describe(program, release string, info *debug.BuildInfo) Version {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}

	return Version{
		Program:    program,
		Version:    cmp.Or(release, info.Main.Version),
		Commit:     settings["vcs.revision"],
		CommitTime: settings["vcs.time"],
		Modified:   settings["vcs.modified"] == "true",
		Go:         strings.TrimPrefix(cmp.Or(info.GoVersion, runtime.Version()), "go"),
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// String returns a line for each thing that is known.
func (v Version) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", v.Program, cmp.Or(v.Version, "of unknown version"))
	if v.Commit != "" {
		fmt.Fprintf(&b, "commit  %s of %s", v.Commit, cmp.Or(v.CommitTime, "unknown time"))
		if v.Modified {
			b.WriteString(", with changes")
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "go      %s %s\n", v.Go, v.Platform)
	return b.String()
}
