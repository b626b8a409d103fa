package verify

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func TestContentIsComparedInPieces(t *testing.T) {
	const piece = 4 << 20
	long := bytes.Repeat([]byte("loam\n"), 2*piece/5)
	changed := bytes.Clone(long)
	changed[len(changed)-1]++

	for name, tc := range map[string]struct {
		a, b []byte
		same bool
	}{
		"nothing":                         {nil, nil, true},
		"a file of several pieces":        {long, long, true},
		"a file that ends with a piece":   {long[:piece], long[:piece], true},
		"its last byte differs":           {long, changed, false},
		"the other goes on":               {long[:100], long, false},
		"the other goes on after a piece": {long[:piece], long, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pair := range [][2][]byte{{tc.a, tc.b}, {tc.b, tc.a}} {
				same, err := sameContent(bytes.NewReader(pair[0]), bytes.NewReader(pair[1]))
				if err != nil || same != tc.same {
					t.Errorf("%v, %v", same, err)
				}
			}
		})
	}
}

// Ctrl-C while a file is compared does not make it differ.
func TestCompare(t *testing.T) {
	want := filepath.Join(t.TempDir(), "disk.raw.zst")
	if err := os.WriteFile(want, []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct {
		name, want string
		have       io.Reader
	}{
		{"the same", "", strings.NewReader("content")},
		{"another", "differs from disk.raw.zst", strings.NewReader("context")},
		{"an interruption", "context canceled", iotest.ErrReader(context.Canceled)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, err := os.Open(want)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()

			got := ""
			if err := compare(tt.have, file); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
