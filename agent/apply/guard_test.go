package apply_test

import (
	"strings"
	"testing"
)

// TestNothingChangesBelowAForeignLink has a pod replace a directory above a
// managed path by a link to files of the node.
func TestNothingChangesBelowAForeignLink(t *testing.T) {
	for _, tt := range []struct {
		name, content string
		do            func(t *testing.T, n node)
	}{
		{"by a repair", "of the node", func(t *testing.T, n node) {
			_, err := n.executor(t, nil).Repair(t.Context(), nil, nil)
			if err == nil || !strings.Contains(err.Error(), "/var/q: the directory was replaced") {
				t.Errorf("repair: %v", err)
			}
		}},
		{"by a configuration without the file", "managed", func(t *testing.T, n node) {
			e := n.executor(t, nil)
			mustApply(t, e, filesOf("/etc/a", "2"))
			accept(t, e)
		}},
		{"by a reset", "managed", func(t *testing.T, n node) {
			if err := n.executor(t, nil).Reset(t.Context()); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, _ := fakeNode(t)
			e := n.executor(t, nil)
			mustApply(t, e, filesOf("/etc/a", "1", "/var/q/file", "managed"))
			accept(t, e)

			if err := n.root.RemoveAll("var/q"); err != nil {
				t.Fatal(err)
			}
			put(t, n, "etc/cron/file", tt.content)
			if err := n.root.Symlink("../etc/cron", "var/q"); err != nil {
				t.Fatal(err)
			}

			tt.do(t, n)
			if absent(n, "etc/cron/file") {
				t.Error("the file that the link leads to was removed")
			} else if got := read(t, n, "etc/cron/file"); got != tt.content {
				t.Errorf("the file that the link leads to is %q now", got)
			}
		})
	}
}
