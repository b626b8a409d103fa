package version

import (
	"bytes"
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestDescribe(t *testing.T) {
	machine := " " + runtime.GOOS + "/" + runtime.GOARCH + "\n"
	committed := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "550fe35"},
		{Key: "vcs.time", Value: "2026-11-23T15:29:00Z"},
	}

	for _, test := range []struct {
		name, release string
		info          debug.BuildInfo
		want          string
	}{
		{
			name:    "a program of an image",
			release: "0.2.0",
			info:    debug.BuildInfo{GoVersion: "go1.26.8"},
			want:    "loam 0.2.0\ngo      1.26.8" + machine,
		},
		{
			name: "a program of a checkout",
			info: debug.BuildInfo{
				GoVersion: "go1.26.8",
				Main:      debug.Module{Version: "v0.1.1-0.20261123152900-550fe35"},
				Settings:  committed,
			},
			want: "loam v0.1.1-0.20261123152900-550fe35\n" +
				"commit  550fe35 of 2026-11-23T15:29:00Z\ngo      1.26.8" + machine,
		},
		{
			name: "a program of a checkout with changes",
			info: debug.BuildInfo{
				GoVersion: "go1.26.8",
				Main:      debug.Module{Version: "(devel)"},
				Settings: append(committed, debug.BuildSetting{
					Key:   "vcs.modified",
					Value: "true",
				}),
			},
			want: "loam (devel)\ncommit  550fe35 of 2026-11-23T15:29:00Z, with changes\n" +
				"go      1.26.8" + machine,
		},
		{
			name: "nothing is known",
			info: debug.BuildInfo{GoVersion: "go1.26.8"},
			want: "loam of unknown version\ngo      1.26.8" + machine,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := describe("loam", test.release, &test.info).String(); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// TestTheCommandAndTheFlagPrintTheSame runs both.
func TestTheCommandAndTheFlagPrintTheSame(t *testing.T) {
	print := func(arg string) string {
		root := &cobra.Command{Use: "loam"}
		Add(root, "0.2.0")
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs([]string{arg})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}

	command, flag := print("version"), print("--version")
	if command != flag || !bytes.HasPrefix([]byte(command), []byte("loam 0.2.0\n")) {
		t.Errorf("version: %q, --version: %q", command, flag)
	}
}

func TestVersionForAProgram(t *testing.T) {
	root := &cobra.Command{Use: "loam"}
	Add(root, "0.2.0")
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs([]string{"version", "-o", "json"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}

	var have map[string]any
	if err := json.Unmarshal(out.Bytes(), &have); err != nil {
		t.Fatalf("%q: %v", out.String(), err)
	}
	for name, want := range map[string]any{
		"program":  "loam",
		"version":  "0.2.0",
		"go":       strings.TrimPrefix(runtime.Version(), "go"),
		"platform": runtime.GOOS + "/" + runtime.GOARCH,
	} {
		if have[name] != want {
			t.Errorf("%s: %v, want %v", name, have[name], want)
		}
	}
}

func TestVersionOfACheckoutForAProgram(t *testing.T) {
	have := describe("loam", "", &debug.BuildInfo{
		GoVersion: "go1.26.8",
		Main:      debug.Module{Version: "(devel)"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "550fe35"},
			{Key: "vcs.time", Value: "2026-11-23T15:29:00Z"},
			{Key: "vcs.modified", Value: "true"},
		},
	})
	want := Version{
		Program:    "loam",
		Version:    "(devel)",
		Commit:     "550fe35",
		CommitTime: "2026-11-23T15:29:00Z",
		Modified:   true,
		Go:         "1.26.8",
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
	}
	if have != want {
		t.Errorf("%+v, want %+v", have, want)
	}
}
