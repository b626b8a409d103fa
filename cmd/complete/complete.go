// Package complete has a shell complete what is typed after a command: the values
// of flags, and arguments.
package complete

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NoFiles makes a shell offer only the given words, and no files.
const NoFiles = cobra.ShellCompDirectiveNoFileComp

// Flags are the values of flags by the name of the flag.
type Flags struct {
	// Values complete those with a known set of values.
	Values map[string]cobra.CompletionFunc
	// Free are the flags with any text, and what that is: a shell offers nothing for
	// them.
	Free map[string]string
}

// Add has a shell complete the flags of cmd and all commands below it, unless they
// complete already: as f says, or a directory for a `DIR`, a file for a `FILE` and
// nothing for a number or a time. A command without arguments is offered no files.
func (f Flags) Add(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		f.Add(sub)
	}

	if !strings.Contains(cmd.Use, " ") && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		values := f.values(flag)
		if _, has := cmd.GetFlagCompletionFunc(flag.Name); !has && values != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, values) // The flag exists.
		}
	})
}

// values completes a flag, nil if it is not known how.
func (f Flags) values(flag *pflag.Flag) cobra.CompletionFunc {
	if values, known := f.Values[flag.Name]; known {
		return values
	}
	if _, free := f.Free[flag.Name]; free {
		return cobra.NoFileCompletions
	}
	switch flag.Value.Type() {
	case "int", "uint64", "duration":
		return cobra.NoFileCompletions
	}
	switch placeholder, _ := pflag.UnquoteUsage(flag); placeholder {
	case "DIR":
		return Directories
	case "FILE":
		return Files()
	}
	return nil
}

// Words offers words.
func Words(words ...string) cobra.CompletionFunc { return cobra.FixedCompletions(words, NoFiles) }

// Directories offers directories.
func Directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// Files offers the files with one of the extensions, without their dots; all files
// if there is none.
func Files(extensions ...string) cobra.CompletionFunc {
	directive := cobra.ShellCompDirectiveFilterFileExt
	if len(extensions) == 0 {
		directive = cobra.ShellCompDirectiveDefault
	}
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return extensions, directive
	}
}
