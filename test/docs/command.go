package docs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/loam-os/loam/cmd/complete"
)

// Reference is the page of a program: the help of each of its commands.
func Reference(root *cobra.Command, source string) string {
	var b strings.Builder
	b.WriteString(generated(root.Name(), source))
	b.WriteString(paragraph(root) + "\n")

	commands := runnable(root)
	b.WriteString("| Command | |\n|---|---|\n")
	for _, cmd := range commands {
		fmt.Fprintf(
			&b,
			"| [`%s`](#%s) | %s |\n",
			cmd.CommandPath(),
			strings.ReplaceAll(cmd.CommandPath(), " ", "-"),
			cmd.Short,
		)
	}

	for _, cmd := range commands {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", cmd.CommandPath(), paragraph(cmd))
		fmt.Fprintf(&b, "```text\n%s\n", cmd.UseLine())
		if flags := cmd.NonInheritedFlags().FlagUsages(); flags != "" {
			fmt.Fprintf(&b, "\n%s", flags)
		}
		b.WriteString("```\n")
		if cmd.Example != "" {
			fmt.Fprintf(&b, "\n```sh\n%s\n```\n", unindent(cmd.Example))
		}
	}
	return b.String()
}

// runnable returns the commands below cmd that do something.
func runnable(cmd *cobra.Command) []*cobra.Command {
	var found []*cobra.Command
	for _, sub := range cmd.Commands() {
		if sub.Name() == "help" || sub.Hidden {
			continue
		}
		if sub.Runnable() && !sub.HasSubCommands() {
			sub.InitDefaultHelpFlag()
			found = append(found, sub)
		}
		found = append(found, runnable(sub)...)
	}
	return found
}

// Help checks that a new user finds a sentence, an example, and what each flag
// takes in the help of each command of a program, on lines that fit a terminal.
func Help(t *testing.T, root *cobra.Command) {
	t.Helper()
	for _, cmd := range runnable(root) {
		if cmd.Long == "" || cmd.Example == "" {
			t.Errorf("%s: no description or no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Long) {
			if length := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); length > columns {
				t.Errorf("%s: a line of %d columns, want at most %d: %s", cmd.CommandPath(), length,
					columns, line)
			}
		}
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			value, text := pflag.UnquoteUsage(flag)
			if text == "" || value != strings.ToUpper(value) {
				t.Errorf("%s --%s %s: name its value in capital letters, such as `FILE`",
					cmd.CommandPath(), flag.Name, value)
			}
		})
	}
}

// Formats checks that each command of a program prints JSON with -o json, which
// the page about output documents, or stands in without, with the reason. top is
// the top of the repository.
func Formats(t *testing.T, root *cobra.Command, top string, without map[string]string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(top, "docs/reference/output.md"))
	if err != nil {
		t.Fatal(err)
	}
	unused := maps.Clone(without)
	for _, cmd := range runnable(root) {
		name := strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")
		flag := cmd.Flags().Lookup("output")
		has := flag != nil && strings.HasSuffix(flag.Usage, " or json")
		_, excused := without[name]
		delete(unused, name)

		switch {
		case !has && !excused:
			t.Errorf("%s: it has no -o json; why?", cmd.CommandPath())
		case has && excused:
			t.Errorf("%s has -o json", cmd.CommandPath())
		case has && !documents(string(page), cmd.CommandPath()):
			t.Errorf("%s: docs/reference/output.md does not say what it prints with -o json",
				cmd.CommandPath())
		}
	}
	for name := range unused {
		t.Errorf("%s has no command %s", root.Name(), name)
	}
}

// documents reports whether a page has a command in a title, or in code.
func documents(page, command string) bool {
	return strings.Contains(page, "\n## "+command+"\n") || strings.Contains(page, "`"+command+"`")
}

// Completion checks that a shell completes each flag of a program that takes a value,
// and that each flag in f is one of the program.
func Completion(t *testing.T, root *cobra.Command, f complete.Flags) {
	t.Helper()
	unused := map[string]bool{}
	for name := range f.Values {
		unused[name] = true
	}
	for name := range f.Free {
		unused[name] = true
	}

	for _, cmd := range runnable(root) {
		if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 {
			t.Errorf("%s: how does a shell complete its arguments?", cmd.CommandPath())
		}
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			delete(unused, flag.Name)
			_, completes := cmd.GetFlagCompletionFunc(flag.Name)
			if !completes && flag.Value.Type() != "bool" {
				t.Errorf("%s --%s: how does a shell complete it?", cmd.CommandPath(), flag.Name)
			}
		})
	}
	for name := range unused {
		t.Errorf("%s has no flag --%s to complete", root.Name(), name)
	}
}

func paragraph(cmd *cobra.Command) string {
	if cmd.Long == "" {
		return cmd.Short + ".\n"
	}
	return strings.TrimSpace(cmd.Long) + "\n"
}

// unindent removes the two spaces that examples have in help.
func unindent(text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(text, "  "), "\n  ", "\n")
}

// Line is a command line in the documentation.
type Line struct {
	// At is the page and, for a block, its line.
	At   string
	Args []string
	// Whole is set for a line of a block: it has all of its arguments. A
	// command in running text may be the name and a flag only.
	Whole bool
}

// operator joins the commands of a line.
var operator = regexp.MustCompile(` (?:\|\|?|&&|>) `)

// inline is code in running text.
var inline = regexp.MustCompile("`([^`\n]+)`")

// Lines returns the command lines of program in the pages, without the program
// itself.
func Lines(pages []Page, program string) []Line {
	var lines []Line
	for _, page := range pages {
		blocks, rest := page.Blocks()
		for _, block := range blocks {
			lines = append(lines, block.lines(program)...)
		}
		for _, code := range inline.FindAllStringSubmatch(rest, -1) {
			if args, is := arguments(code[1], program); is {
				lines = append(lines, Line{At: page.Path, Args: args})
			}
		}
	}
	return lines
}

// lines returns the commands of a block for a shell, and of a session, where a
// prompt comes before each command.
func (b Block) lines(program string) []Line {
	var lines []Line
	text := strings.ReplaceAll(b.Text, "\\\n", " ")
	for line := range strings.Lines(text) {
		command, isSession := strings.CutPrefix(line, "# ")
		if b.Info != "sh" && !isSession {
			continue
		}
		for _, one := range operator.Split(command, -1) {
			if args, is := arguments(strings.TrimPrefix(one, "sudo "), program); is {
				lines = append(lines, Line{At: b.At, Args: args, Whole: true})
			}
		}
	}
	return lines
}

// arguments splits a command line as a shell does, up to a comment.
func arguments(line, program string) ([]string, bool) {
	words := split(line)
	if len(words) < 2 || strings.TrimPrefix(words[0], "build/") != program {
		return nil, false
	}
	return words[1:], true
}

// split handles quotes, and nothing else of a shell's language.
func split(line string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	started := false
	for _, r := range line + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, started = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if started {
				words = append(words, word.String())
			}
			word.Reset()
			started = false
		case r == '#' && !started:
			return words
		default:
			word.WriteRune(r)
			started = true
		}
	}

	return words
}

// Try parses a line with the real commands: the command exists, its flags exist
// and have values of their type, and it takes that many arguments.
func (l Line) Try(root *cobra.Command) error {
	// cobra adds the command completion only when it runs.
	root.InitDefaultCompletionCmd()

	cmd, rest, err := root.Find(l.Args)
	if err != nil {
		return err
	}
	if cmd == root && !strings.HasPrefix(l.Args[0], "-") {
		return fmt.Errorf("%s has no command %s", root.Name(), l.Args[0])
	}
	cmd.InitDefaultHelpFlag()
	if !l.Whole {
		return flagsExist(cmd, rest)
	}

	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	return cmd.ValidateRequiredFlags()
}

func flagsExist(cmd *cobra.Command, args []string) error {
	for _, arg := range args {
		long, isLong := strings.CutPrefix(strings.Trim(arg, "[]"), "--")
		name, _, _ := strings.Cut(long, "=")
		if isLong && cmd.Flags().Lookup(name) == nil {
			return fmt.Errorf("%s has no flag --%s", cmd.CommandPath(), name)
		}
	}
	return nil
}
