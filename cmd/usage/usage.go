// Package usage makes the errors of wrong command lines say what a command wants.
// [Explain] is for the root command of a program, [Check] for a command line before
// it runs.
package usage

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Errorf returns an error about the command line.
func Errorf(format string, args ...any) error {
	return fault.With(fmt.Errorf(format, args...), fault.Usage)
}

// completion is the name of the command that cobra adds.
const completion = "completion"

// Check returns an error if args name a command that does not exist. cobra itself
// shows the help of the command above it then, except below the root command.
func Check(root *cobra.Command, args []string) error {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	for _, cmd := range root.Commands() {
		if cmd.Name() == completion {
			Explain(cmd)
		}
	}
	if len(args) > 0 && args[0] == "help" { // cobra succeeds with a topic that does not exist.
		args = args[1:]
	}

	cmd, rest, _ := root.Find(args) // Its error is what this function is for.
	at := slices.IndexFunc(rest, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	if at < 0 || !cmd.HasSubCommands() || strings.HasPrefix(rest[at], cobra.ShellCompRequestCmd) {
		return nil
	}

	advice := fmt.Sprintf("`%s --help` lists the commands", cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(rest[at]); len(near) > 0 {
		advice = fmt.Sprintf("did you mean `%s %s`? %s", cmd.CommandPath(), near[0], advice)
	}
	return hint.With(Errorf("unknown command %q for %q", rest[at], cmd.CommandPath()), "%s", advice)
}

// Explain makes a command, and all commands below it, name the arguments that
// are missing or too many, by their Use lines, and show the line. Errors of
// other kinds keep their text.
func Explain(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		Explain(sub)
	}

	cmd.SetFlagErrorFunc(wrongFlags)

	// The arguments of a command with others below it are names of those.
	check := cmd.Args
	if check == nil || cmd.HasSubCommands() {
		return
	}

	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			err = empty(cmd, args)
		}
		if err == nil {
			return flags(cmd)
		}
		if wrong := explain(cmd, args); wrong != nil {
			err = wrong
		}
		err = fault.With(err, fault.Usage)
		name := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
		return hint.With(fmt.Errorf("%s: %w", name, err), "usage: %s", cmd.UseLine())
	}
}

// empty refuses an argument or flag that is empty. It is an unset variable of a
// shell, and would mean what no argument means, such as to roll back to the
// generation before.
func empty(cmd *cobra.Command, args []string) error {
	if at := slices.Index(args, ""); at >= 0 {
		return fmt.Errorf("argument %d is empty", at+1)
	}

	var err error
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Value.Type() == "string" && flag.Value.String() == "" {
			err = fmt.Errorf("--%s is empty", flag.Name)
		}
	})
	return err
}

// flags checks what cobra would check next, whose errors have no type.
func flags(cmd *cobra.Command) error {
	err := missingFlags(cmd)
	if err == nil {
		err = together(cmd.ValidateFlagGroups())
	}
	if err == nil {
		return nil
	}
	return wrongFlags(cmd, err)
}

// The ends of cobra's errors for flags that exclude each other, and for flags of
// which one needs another.
var (
	allSet    = regexp.MustCompile(`\[([a-z -]+)\] were all set$`)
	notAllSet = regexp.MustCompile(`\[([a-z -]+)\] are set they must all be set; missing \[([a-z -]+)\]$`)
)

// together says which flags exclude or need each other, if err is about that.
func together(err error) error {
	if err == nil {
		return nil
	}
	if match := allSet.FindStringSubmatch(err.Error()); match != nil {
		return fmt.Errorf("%s do not go together", and(flagNames(match[1])))
	}
	if match := notAllSet.FindStringSubmatch(err.Error()); match != nil {
		return fmt.Errorf("%s go together; %s",
			and(flagNames(match[1])), areMissing(flagNames(match[2])))
	}
	return err
}

// flagNames returns the names in list as they are typed.
func flagNames(list string) []string {
	var names []string
	for name := range strings.FieldsSeq(list) {
		names = append(names, "--"+name)
	}
	return names
}

// missingFlags names the required flags that are not set.
func missingFlags(cmd *cobra.Command) error {
	var missing []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		required := flag.Annotations[cobra.BashCompOneRequiredFlag]
		if slices.Contains(required, "true") && !flag.Changed {
			missing = append(missing, "--"+flag.Name)
		}
	})
	if len(missing) == 0 {
		return nil
	}
	return errors.New(areMissing(missing))
}

// areMissing says that one or more things are missing.
func areMissing(names []string) string {
	if len(names) == 1 {
		return names[0] + " is missing"
	}
	return and(names) + " are missing"
}

// wrongFlags adds to an error about the flags of a command where they are listed.
func wrongFlags(cmd *cobra.Command, err error) error {
	if wrong, is := errors.AsType[*pflag.InvalidValueError](err); is {
		err = wrongValue(wrong)
	}
	return hint.With(fault.With(err, fault.Usage),
		"`%s --help` lists the flags", cmd.CommandPath())
}

// wanted are the values of flags by their type, where the error of the flag names
// a function of Go.
var wanted = map[string]string{
	"bool":     "true or false",
	"duration": "a time with its unit, such as 90s, 5m or 24h",
	"int":      "a whole number",
	"int64":    "a whole number",
}

// wrongValue says which value a flag wants.
func wrongValue(err *pflag.InvalidValueError) error {
	flag := err.GetFlag()
	if want, known := wanted[flag.Value.Type()]; known {
		return fmt.Errorf("--%s %q: want %s", flag.Name, err.GetValue(), want)
	}
	return fmt.Errorf("--%s %q: %w", flag.Name, err.GetValue(), err.Unwrap())
}

// explain says what is wrong with the arguments, nil if it does not know.
func explain(cmd *cobra.Command, args []string) error {
	required, most := arguments(cmd)
	switch {
	case len(args) < len(required):
		missing := required[len(args):]
		return fmt.Errorf("want %s; %s", and(required), areMissing(missing))
	case len(args) <= most:
		return notOneOf(cmd, args)
	case most == 0:
		return fmt.Errorf("want no arguments; %q is one too many", args[0])
	}

	all := strings.Join(words(cmd), " ")
	return fmt.Errorf("want %s; %q is one too many", all, args[most])
}

// notOneOf says which argument is not one of those that the command takes, nil if
// it takes any.
func notOneOf(cmd *cobra.Command, args []string) error {
	for _, arg := range args {
		if len(cmd.ValidArgs) > 0 && !slices.Contains(cmd.ValidArgs, arg) {
			return fmt.Errorf("%q: want %s", arg, strings.Join(cmd.ValidArgs, " or "))
		}
	}
	return nil
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

// and lists names.
func and(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
