package outcome_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// program returns a program with one command, which ends with err.
func program(err error) *cobra.Command {
	root := &cobra.Command{Use: "loam", SilenceErrors: true, SilenceUsage: true}
	cmd := &cobra.Command{
		Use:  "apply FILE",
		Args: cobra.ExactArgs(1),
		RunE: func(*cobra.Command, []string) error { return err },
	}
	var format string
	outcome.FormatFlag(cmd, &format, "text")
	cmd.Flags().Bool("now", false, "")
	cmd.Flags().Bool("later", false, "")
	cmd.MarkFlagsMutuallyExclusive("now", "later")

	group := &cobra.Command{Use: "osc"}
	group.AddCommand(&cobra.Command{Use: "validate", Run: func(*cobra.Command, []string) {}})

	permit := &cobra.Command{
		Use:  "permit",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return err },
	}
	permit.Flags().StringP("output", "o", "permit.json", "file to write")

	root.AddCommand(cmd, group, permit)
	root.SetOut(io.Discard)
	usage.Explain(root)
	return root
}

func TestErrorOfACommand(t *testing.T) {
	held := fault.With(errors.New("000002 is held"), fault.Held)

	for _, row := range []struct {
		name   string
		args   string
		err    error
		uid    int
		want   string
		status int
	}{
		{name: "no error", args: "apply a"},
		{
			name:   "there is something to do",
			args:   "apply a",
			err:    outcome.ErrToDo,
			status: 5,
		},
		{
			name:   "no code",
			args:   "apply a",
			err:    errors.New("the disk is away"),
			want:   "loam: the disk is away\n",
			status: 1,
		},
		{
			name:   "a code and a hint",
			args:   "apply a",
			err:    fmt.Errorf("apply: %w", hint.With(held, "wait")),
			want:   "loam: apply: 000002 is held\nhint: wait\ncode: held\n",
			status: 3,
		},
		{
			name:   "a code without a hint: the general one",
			args:   "apply a",
			err:    fault.With(errors.New("no agent"), fault.AgentNotRunning),
			want:   "loam: no agent\nhint: systemctl status loam-agent\ncode: agent-not-running\n",
			status: 4,
		},
		{
			name:   "no permission",
			args:   "apply a",
			err:    fs.ErrPermission,
			uid:    1000,
			want:   "loam: permission denied\nhint: run the command as root\ncode: not-permitted\n",
			status: 3,
		},
		{
			name:   "no permission, as root",
			args:   "apply a",
			err:    fs.ErrPermission,
			want:   "loam: permission denied\ncode: not-permitted\n",
			status: 3,
		},
		{
			name: "a program that is not there",
			args: "apply a",
			err:  &exec.Error{Name: "qemu-img", Err: exec.ErrNotFound},
			want: "loam: exec: \"qemu-img\": executable file not found in $PATH\n" +
				"hint: install the package that has it\ncode: tool-missing\n",
			status: 3,
		},
		{
			name:   "interrupted",
			args:   "apply a",
			err:    fmt.Errorf("wait: %w", context.Canceled),
			want:   "loam: wait: interrupted\n",
			status: 130,
		},
		{
			name: "as JSON",
			args: "apply -o json a",
			err:  hint.With(held, "<wait>"),
			want: `{"code":"held","class":"refused","message":"000002 is held",` +
				`"hint":"<wait>"}` + "\n",
			status: 3,
		},
		{
			name: "a password in a command line",
			args: "apply a",
			err: hint.With(errors.New("http://ada:s3cret@host/a: want a directory"),
				"curl http://ada:s3cret@host/a"),
			want: "loam: http://ada:xxxxx@host/a: want a directory\n" +
				"hint: curl http://ada:xxxxx@host/a\n",
			status: 1,
		},
		{
			name: "a password in a command line, as JSON",
			args: "apply -o json a",
			err: hint.With(document.Errors{{
				Path:    "proxy",
				Problem: "http://ada:s3cret@host is no mapping",
				Hint:    "curl http://ada:s3cret@host",
			}}, "wait for http://ada:s3cret@host"),
			want: `{"code":"document-invalid","class":"refused",` +
				`"message":"proxy: http://ada:xxxxx@host is no mapping",` +
				`"hint":"wait for http://ada:xxxxx@host; curl http://ada:xxxxx@host",` +
				`"mistakes":[{"path":"proxy","problem":"http://ada:xxxxx@host is no mapping",` +
				`"hint":"curl http://ada:xxxxx@host"}]}` + "\n",
			status: 3,
		},
		{
			name: "mistakes of documents, as JSON",
			args: "apply -o json a",
			err: errors.Join(
				fmt.Errorf("apply: %w", document.Errors{{
					File:    "a.yaml",
					Line:    3,
					Path:    "spec.unit",
					Problem: "unknown field",
					Hint:    "did you mean units?",
				}}),
				document.Errors{{File: "b.yaml", Path: document.Whole, Problem: "empty"}},
			),
			want: `{"code":"document-invalid","class":"refused","message":"apply: a.yaml:3: ` +
				`spec.unit: unknown field\nb.yaml: ` + document.Whole +
				`: empty","hint":"did you mean units?","mistakes":[{"file":"a.yaml","line":3,"path":"spec.unit",` +
				`"problem":"unknown field","hint":"did you mean units?"},{"file":"b.yaml","path":"` +
				document.Whole + `","problem":"empty"}]}` + "\n",
			status: 3,
		},
		{
			name:   "an unknown command",
			args:   "aply",
			want:   "loam: unknown command \"aply\" for \"loam\"\nhint: did you mean `loam apply`? `loam --help` lists the commands\n",
			status: 2,
		},
		{
			name:   "an unknown command of a group",
			args:   "osc frobnicate",
			want:   "loam: unknown command \"frobnicate\" for \"loam osc\"\nhint: `loam osc --help` lists the commands\n",
			status: 2,
		},
		{name: "a group", args: "osc"},
		{
			name:   "a missing argument",
			args:   "apply",
			want:   "loam: apply: want FILE; FILE is missing\nhint: usage: loam apply FILE [flags]\n",
			status: 2,
		},
		{
			name:   "a command line that the command itself refuses",
			args:   "apply a",
			err:    usage.Errorf("--now with a: which of both?"),
			want:   "loam: --now with a: which of both?\nhint: `loam apply --help` says what it takes\n",
			status: 2,
		},
		{
			name:   "an unknown flag",
			args:   "apply a --nwo",
			want:   "loam: unknown flag: --nwo\nhint: `loam apply --help` lists the flags\n",
			status: 2,
		},
		{
			name: "an unknown flag, as JSON",
			args: "apply -o json a --nwo",
			want: `{"code":"usage","class":"usage","message":"unknown flag: --nwo",` +
				"\"hint\":\"`loam apply --help` lists the flags\"}\n",
			status: 2,
		},
		{
			name: "an unknown flag before the one for JSON",
			args: "apply --nwo -o json a",
			want: `{"code":"usage","class":"usage","message":"unknown flag: --nwo",` +
				"\"hint\":\"`loam apply --help` lists the flags\"}\n",
			status: 2,
		},
		{
			name: "an unknown format",
			args: "apply -o yaml a",
			err:  errors.New("the disk is away"),
			want: "loam: --output \"yaml\": want text or json\n" +
				"hint: `loam apply --help` lists the flags\n",
			status: 2,
		},
		{
			name:   "a file with the name of a format",
			args:   "permit -o json",
			err:    errors.New("the disk is away"),
			want:   "loam: the disk is away\n",
			status: 1,
		},
		{
			name:   "a flag that is empty",
			args:   "permit --output=",
			want:   "loam: permit: --output is empty\nhint: usage: loam permit [flags]\n",
			status: 2,
		},
		{
			name: "an argument for the completion of a shell",
			args: "completion bash x",
			want: "loam: completion bash: want no arguments; \"x\" is one too many\n" +
				"hint: usage: loam completion bash\n",
			status: 2,
		},
		{
			name: "flags that exclude each other",
			args: "apply a --now --later",
			want: "loam: --later and --now do not go together\n" +
				"hint: `loam apply --help` lists the flags\n",
			status: 2,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out strings.Builder
			have := outcome.Run(t.Context(), program(row.err), strings.Fields(row.args),
				outcome.User{Stderr: &out, UID: row.uid})
			if have != row.status {
				t.Errorf("exit status %d, want %d", have, row.status)
			}
			if diff := cmp.Diff(row.want, out.String()); diff != "" {
				t.Errorf("standard error (-want +have)\n%s", diff)
			}
		})
	}
}

// TestHelpThatCannotBeWritten is an error: a script that keeps it would keep
// nothing.
func TestHelpThatCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()

	for _, args := range [][]string{{"--help"}, {"help"}, {}} {
		root := &cobra.Command{Use: "loam", Short: "test", SilenceErrors: true, SilenceUsage: true}
		root.AddCommand(&cobra.Command{Use: "apply", Run: func(*cobra.Command, []string) {}})
		root.SetOut(full)

		var stderr strings.Builder
		status := outcome.Run(t.Context(), root, args, outcome.User{Stderr: &stderr})
		if status != 1 || !strings.Contains(stderr.String(), "no space left on device") {
			t.Errorf("%q: status %d, %q", args, status, stderr.String())
		}
	}
}

func TestErrorAfterASignal(t *testing.T) {
	for _, sent := range []unix.Signal{unix.SIGINT, unix.SIGTERM} {
		t.Run(unix.SignalName(sent), func(t *testing.T) {
			ctx, stop := signal.NotifyContext(t.Context(), sent)
			defer stop()
			if err := unix.Kill(os.Getpid(), sent); err != nil {
				t.Fatal(err)
			}
			<-ctx.Done()

			var out strings.Builder
			err := fmt.Errorf("wait: %w", context.Cause(ctx))
			have := outcome.Run(t.Context(), program(err), []string{"apply", "a"},
				outcome.User{Stderr: &out})
			if have != 130 || out.String() != "loam: wait: interrupted\n" {
				t.Errorf("exit status %d, %q", have, out.String())
			}
		})
	}
}

// A tool that was interrupted ends with an error that says something else.
func TestErrorAfterAnInterruption(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	err := fault.With(errors.New("mkfs: signal: interrupt"), fault.DiskFull)
	have := outcome.Run(ctx, program(err), []string{"apply", "a"}, outcome.User{Stderr: &out})
	if have != 130 || out.String() != "loam: mkfs: signal: interrupt\n" {
		t.Errorf("exit status %d, %q", have, out.String())
	}
}
