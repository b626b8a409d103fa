// Package usage makes the errors of wrong arguments say what a command wants.
// [Explain] is for the root command of a program.
package usage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/hint"
)

// Explain makes a command, and all commands below it, name the arguments that
// are missing or too many, by their Use lines, and show the line. Errors of
// other kinds keep their text.
func Explain(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		Explain(sub)
	}

	// The arguments of a command with others below it are names of those.
	check := cmd.Args
	if check == nil || cmd.HasSubCommands() {
		return
	}

	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		if wrong := explain(cmd, args); wrong != nil {
			err = wrong
		}
		name := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
		return hint.With(fmt.Errorf("%s: %w", name, err), "usage: %s", cmd.UseLine())
	}
}

// explain says what is wrong with the number of arguments, nil if that is not
// wrong.
func explain(cmd *cobra.Command, args []string) error {
	required, most := arguments(cmd)
	switch {
	case len(args) < len(required):
		missing := required[len(args):]
		verb := "is"
		if len(missing) > 1 {
			verb = "are"
		}
		return fmt.Errorf("want %s; %s %s missing", and(required), and(missing), verb)
	case len(args) <= most:
		return nil
	case most == 0:
		return fmt.Errorf("want no arguments; %q is one too many", args[0])
	}

	return fmt.Errorf("want %s; %q is one too many", wanted(cmd), args[most])
}

// words returns the words for arguments in the Use line.
func words(cmd *cobra.Command) []string {
	all := strings.Fields(cmd.Use)[1:]
	flag := func(word string) bool { return strings.HasPrefix(strings.TrimLeft(word, "["), "-") }
	if at := slices.IndexFunc(all, flag); at >= 0 {
		all = all[:at]
	}
	return all
}

// unlimited is more arguments than a command line has.
const unlimited = 1 << 30

// arguments returns the names of the arguments that a command needs, and how
// many it takes at most.
func arguments(cmd *cobra.Command) (required []string, most int) {
	for _, word := range words(cmd) {
		if strings.HasSuffix(strings.TrimRight(word, "]"), "...") {
			most += unlimited
		}
		most++
		if !strings.HasPrefix(word, "[") {
			required = append(required, strings.TrimSuffix(word, "..."))
		}
	}
	return required, most
}

// wanted names all arguments, those in brackets with them.
func wanted(cmd *cobra.Command) string { return strings.Join(words(cmd), " ") }

// and lists names.
func and(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
