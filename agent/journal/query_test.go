package journal

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCopyAsksJournalctl(t *testing.T) {
	at := time.Unix(1000, 0)
	for _, tt := range []struct {
		name    string
		query   Query
		want    []string
		without []string
	}{
		{
			"this boot",
			Query{Unit: "a.service"},
			[]string{"--unit=a.service", "--boot=0"},
			[]string{"--lines", "--follow", "--since", "--root"},
		},
		{
			"the last lines of the boot before, and what comes",
			Query{
				Unit:   "a.service",
				Boot:   -1,
				Lines:  5,
				Follow: true,
			},
			[]string{"--boot=-1", "--lines=5", "--follow"},
			nil,
		},
		{
			"a time",
			Query{Unit: "a.service", Since: at, Until: at.Add(time.Minute)},
			[]string{"--since=@1000", "--until=@1061"},
			[]string{"--boot"},
		},
		{
			"for a program",
			Query{Unit: "a.service", JSON: true},
			[]string{"--output=json", "--all"},
			[]string{"--output=short-iso"},
		},
		{"another node", Query{Root: "/mnt"}, []string{"--root=/mnt"}, []string{"--unit"}},
		{"what is bad", Query{Priority: "warning"}, []string{"--priority=warning"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := journalctl(t, "")
			var out strings.Builder
			if n, err := Copy(t.Context(), &out, tt.query); n != 0 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}

			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			arguments := strings.Split(string(text), "\n")
			for _, want := range tt.want {
				if !slices.Contains(arguments, want) {
					t.Errorf("no %s in %q", want, arguments)
				}
			}
			for _, without := range tt.without {
				if strings.Contains(string(text), without) {
					t.Errorf("%s in %q", without, arguments)
				}
			}
		})
	}
}

func TestCopyReturnsTheProblem(t *testing.T) {
	journalctl(t, "echo No journal files were opened >&2; exit 1")
	_, err := Copy(t.Context(), &strings.Builder{}, Query{Unit: "a.service"})
	const want = "read the journal of a.service: No journal files were opened"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// The end of the context kills journalctl.
func TestCopyIsInterrupted(t *testing.T) {
	journalctl(t, "echo a line; exec sleep 1000")
	for follow, want := range map[bool]error{true: nil, false: context.Canceled} {
		ctx, cancel := context.WithCancel(t.Context())
		out, in := io.Pipe()
		go func() {
			_, _ = out.Read(make([]byte, 100))
			cancel()
		}()
		_, err := Copy(ctx, in, Query{Unit: "a.service", Follow: follow})
		if !errors.Is(err, want) {
			t.Errorf("with Follow %v: %v, want %v", follow, err, want)
		}
	}
}

func TestBoots(t *testing.T) {
	journalctl(t, `echo '[{"index":-1,"boot_id":"a"},{"index":0,"boot_id":"b"}]'`)
	got, err := Boots(t.Context(), "")
	if err != nil || !slices.Equal(got, []int{-1, 0}) {
		t.Errorf("%v, %v", got, err)
	}

	journalctl(t, "")
	if got, err := Boots(t.Context(), ""); err != nil || got != nil {
		t.Errorf("without a journal: %v, %v", got, err)
	}
}

// journalctl puts a program of that name in the path. It records its arguments
// in the returned file.
func journalctl(t *testing.T, script string) (arguments string) {
	t.Helper()
	dir := t.TempDir()
	arguments = filepath.Join(dir, "arguments")
	text := "#!/bin/sh\nprintf '%s\\n' \"$@\" > " + arguments + "\n" + script
	if err := os.WriteFile(filepath.Join(dir, "journalctl"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return arguments
}
