// Command box is a shell, and the commands that Kubernetes' tests run in their pods:
// in the place of busybox, which is not written in Go. As sh it is the shell, by its
// other names a command.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"github.com/u-root/u-root/pkg/core"
	"github.com/u-root/u-root/pkg/core/cat"
	"github.com/u-root/u-root/pkg/core/chmod"
	"github.com/u-root/u-root/pkg/core/cp"
	"github.com/u-root/u-root/pkg/core/ls"
	"github.com/u-root/u-root/pkg/core/mkdir"
	"github.com/u-root/u-root/pkg/core/mv"
	"github.com/u-root/u-root/pkg/core/rm"
	"github.com/u-root/u-root/pkg/core/touch"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// command runs with its arguments, without its name.
type command func(ctx context.Context, out io.Writer, args []string) error

// commands are those that are no part of the shell.
var commands = map[string]command{
	"cat": of(cat.New), "chmod": of(chmod.New), "cp": of(cp.New), "ls": of(ls.New),
	"mkdir": of(mkdir.New), "mv": of(mv.New), "rm": of(rm.New), "touch": of(touch.New),
	"curl": curl, "env": env, "grep": grep, "hostname": hostname, "id": id, "nc": nc, "sh": shell, "sleep": sleep,
}

// of is a command of u-root.
func of(create func() core.Command) command {
	return func(ctx context.Context, out io.Writer, args []string) error {
		c := create()
		c.SetIO(os.Stdin, out, os.Stderr)
		return c.RunContext(ctx, args...)
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	name := filepath.Base(os.Args[0])
	run, ok := commands[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "%s is none of %s\n", name, slices.Sorted(maps.Keys(commands)))
		os.Exit(127)
	}
	err := run(ctx, os.Stdout, os.Args[1:])
	status, hasStatus := interp.IsExitStatus(err)
	switch {
	case hasStatus:
		os.Exit(int(status))
	case ctx.Err() != nil:
		os.Exit(128 + int(syscall.SIGTERM))
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// shell implements `sh [-x] -c TEXT [NAME ARGUMENT...]` and `sh [-x] FILE
// [ARGUMENT...]`, with the flags of set(1).
func shell(ctx context.Context, out io.Writer, args []string) error {
	var set []string
	isText := false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		isText = isText || strings.HasSuffix(args[0], "c")
		if others := strings.TrimSuffix(args[0], "c"); others != "-" {
			set = append(set, others)
		}
		args = args[1:]
	}

	var text string
	switch {
	case isText && len(args) > 0:
		text, args = args[0], args[1:]
		args = args[min(1, len(args)):]
	case len(args) > 0:
		content, err := os.ReadFile(args[0])
		if err != nil {
			return err
		}
		text, args = string(content), args[1:]
	default:
		content, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		text = string(content)
	}

	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if err != nil {
		return err
	}
	params := append(append(set, "--"), args...)
	runner, err := interp.New(interp.StdIO(os.Stdin, out, os.Stderr), interp.Params(params...))
	if err != nil {
		return err
	}
	return runner.Run(ctx, file)
}

// grep implements `grep [-v] PATTERN` of its input.
func grep(_ context.Context, out io.Writer, args []string) error {
	flags := pflag.NewFlagSet("grep", pflag.ContinueOnError)
	invert := flags.BoolP("invert-match", "v", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("want a pattern, not %q", flags.Args())
	}
	pattern, err := regexp.Compile(flags.Arg(0))
	if err != nil {
		return err
	}

	found := false
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if pattern.MatchString(lines.Text()) == *invert {
			continue
		}
		found = true
		if _, err := fmt.Fprintln(out, lines.Text()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil || found {
		return err
	}
	return interp.NewExitStatus(1)
}

func sleep(ctx context.Context, _ io.Writer, args []string) error {
	var total time.Duration
	for _, a := range args {
		if _, err := strconv.ParseFloat(a, 64); err == nil {
			a += "s"
		}
		d, err := time.ParseDuration(a)
		if err != nil {
			return err
		}
		total += d
	}
	select {
	case <-time.After(total):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func env(_ context.Context, out io.Writer, _ []string) error {
	_, err := fmt.Fprintln(out, strings.Join(os.Environ(), "\n"))
	return err
}

func hostname(_ context.Context, out io.Writer, _ []string) error {
	name, err := os.Hostname()
	if err == nil {
		_, err = fmt.Fprintln(out, name)
	}
	return err
}

// id implements `id -u` and `id -g`, and prints both without one of them.
func id(_ context.Context, out io.Writer, args []string) error {
	user, group := os.Getuid(), os.Getgid()
	text := fmt.Sprintf("uid=%d gid=%d", user, group)
	switch {
	case slices.Equal(args, []string{"-u"}):
		text = strconv.Itoa(user)
	case slices.Equal(args, []string{"-g"}):
		text = strconv.Itoa(group)
	}
	_, err := fmt.Fprintln(out, text)
	return err
}
