package outcome

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
)

// jsonFormat is the format of [FormatFlag] for programs.
const jsonFormat = "json"

// format is the value of the flag that FormatFlag adds. Set refuses any other
// format before the command looks at anything.
type format struct {
	value *string
	text  string
}

// FormatFlag adds the flag --output, which chooses between text, the name of the
// format for people, and JSON, for errors, too. A shell completes both.
func FormatFlag(cmd *cobra.Command, value *string, text string) {
	*value = text
	cmd.Flags().VarP(format{value, text}, "output", "o", "`FORMAT`: "+text+" or "+jsonFormat)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(
		[]string{text, jsonFormat}, cobra.ShellCompDirectiveNoFileComp)) // The flag exists.
}

// IsJSON reports whether [FormatFlag] chose JSON.
func IsJSON(format string) bool { return format == jsonFormat }

// Write prints value in the format that [FormatFlag] chose: JSON, or what text
// returns.
func Write(out io.Writer, format string, value any, text func() string) error {
	if IsJSON(format) {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(value)
	}

	_, err := io.WriteString(out, text())
	return err
}

// String implements [pflag.Value].
func (f format) String() string {
	if f.value == nil { // the zero value, with which pflag compares a default
		return ""
	}
	return *f.value
}

// Set implements [pflag.Value].
func (f format) Set(value string) error {
	if value != f.text && value != jsonFormat {
		return fmt.Errorf("want %s or %s", f.text, jsonFormat)
	}
	*f.value = value
	return nil
}

// Type implements [pflag.Value].
func (f format) Type() string { return "string" }

// wantsJSON reports whether cmd has the flag of [FormatFlag], and args ask for
// JSON. They are looked at, too, as their parsing ends at the first mistake.
func wantsJSON(cmd *cobra.Command, args []string) bool {
	flag := cmd.Flags().Lookup("output")
	if flag == nil {
		return false
	}
	if _, ours := flag.Value.(format); !ours {
		return false
	}

	asks := func(arg string) bool {
		return arg == "-o=json" || arg == "-ojson" || arg == "--output=json"
	}
	for i := 1; i < len(args); i++ {
		if args[i] == jsonFormat && (args[i-1] == "-o" || args[i-1] == "--output") {
			return true
		}
	}
	return flag.Value.String() == jsonFormat || slices.ContainsFunc(args, asks)
}
