package credentials

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/cluster/reach"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/files"
)

func TestNewTokenIsTriedAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name, token string
		waits       time.Duration
		want        bool
	}{
		{"the same", "old", 40 * time.Second, false},
		{"another", "new", 10 * time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, dir := newTestStore(t)
			files.Write(t, filepath.Join(dir, tokenName), "old")
			j := Joiner{Root: k.dir.Root()}
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				time.AfterFunc(10*time.Second-time.Millisecond, func() {
					if err := os.WriteFile(filepath.Join(dir, tokenName), []byte(tt.token),
						0o600); err != nil {
						t.Error(err)
					}
				})
				if got := j.PauseFor(t.Context(), 40*time.Second, "old"); got != tt.want {
					t.Errorf("another token: %v", got)
				}
				if waited := time.Since(begin); waited != tt.waits {
					t.Errorf("waited %s", waited)
				}
			})
		})
	}
}

// What a token is called is in the status, and on the consoles.
func TestCalledHasNoSecret(t *testing.T) {
	for token, want := range map[string]string{
		"":                         "",
		"abcdef.0123456789abcdef":  "bootstrap token abcdef",
		"0123456789abcdef.abcdef":  "a bootstrap token",
		"0123456789abcdef":         "a bootstrap token",
		"abc\x1b[.0123456789abcde": "a bootstrap token",
	} {
		if got := Called(token); got != want {
			t.Errorf("%q is called %q, want %q", token, got, want)
		}
	}
}

// The status has what was tried, and from where: without a token, nothing was.
func TestNothingIsTriedWithoutAToken(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()

	j := Joiner{Root: root, Now: time.Now, Log: zap.NewNop()}
	_, err = j.Identify(t.Context(), Target{Server: "https://api:6443"}, false, false)
	got := reach.Explain(err, reach.Attempt{Server: "https://api:6443"})
	if got.Code != fault.TokenMissing || got.Tried != "" {
		t.Errorf("%+v", got)
	}
}
