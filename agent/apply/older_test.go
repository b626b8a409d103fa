package apply_test

import (
	"os/exec"
	"testing"

	"github.com/loam-os/loam/agent/apply"
)

// older are the commits whose own code wrote testdata/older: a state with two
// generations that proved themselves and a third that has not yet, with
// everything else that a node had in /var/lib/loam then.
var older = []string{"aa99b7b", "18a045b"}

// TestTheStateOfAnOlderVersion is read: the change that was under way is
// completed, and the node goes on from there, and back.
func TestTheStateOfAnOlderVersion(t *testing.T) {
	for _, version := range older {
		t.Run(version, func(t *testing.T) {
			n, _ := fakeNode(t)
			out, err := exec.Command("tar", "-C", n.root.Name(), "-xzf",
				"testdata/older/"+version+".tar.gz").CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}

			e := n.executor(t, nil)
			if _, err := e.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			third := "000003-27232dff64c5"
			is := func(name, text string) {
				t.Helper()
				m, ok, err := e.Current()
				if err != nil || !ok || m.Name() != name {
					t.Fatalf("runs %q, %t, %v", m.Name(), ok, err)
				}
				if got := read(t, n, "var/lib/demo/real"); got != text {
					t.Errorf("/var/lib/demo/real is %q, want %q", got, text)
				}
				if v, err := e.Verify(t.Context(), nil, false, nil); err != nil || len(v.Bad) > 0 {
					t.Errorf("%+v, %v", v, err)
				}
			}
			is(third, "three")
			accept(t, e)

			held, err := apply.HeldList(e.Config().State.Root().FS())
			if err != nil || len(held) != 1 || held[0].Digest != "0123456789ab" ||
				held[0].Why != "demo.service failed" {
				t.Errorf("held %+v, %v", held, err)
			}
			history, err := apply.History(e.Config().State.Root().FS())
			if err != nil || len(history) != 3 || history[0].Outcome != apply.Applied ||
				history[2].Generation != third {
				t.Errorf("history %+v, %v", history, err)
			}

			mustApply(t, e, filesOf("/var/lib/demo/real", "four"))
			accept(t, e)
			if _, err := e.Rollback(t.Context(), third); err != nil {
				t.Fatal(err)
			}
			is(third, "three")
		})
	}
}
