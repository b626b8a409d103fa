package unitfile_test

import (
	"path"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/unitfile"
)

// The links of a unit stay in the directory of units, whatever its [Install]
// section says, and have names that systemd knows.
func FuzzInstall(f *testing.F) {
	f.Add("a.service", "[Install]\nWantedBy=b.target \\\n c.target\nAlias=%p.service\n")
	f.Add("a@.service", "[Install]\nDefaultInstance=../../x\nWantedBy=%i.target\n")
	f.Add("a@b.service", "[Install]\nAlias=%%%i@.service\nUpheldBy=/x\n")

	f.Fuzz(func(t *testing.T, name, text string) {
		if !unitfile.IsName(name) || !strings.HasSuffix(name, ".service") {
			return // Names are checked before.
		}

		links, _ := unitfile.Parse(text).Install().Links(name, "/etc/systemd/system/"+name)
		for link := range links {
			dir := path.Dir(link)
			by := strings.TrimSuffix(dir, path.Ext(dir))
			if !unitfile.IsName(path.Base(link)) || (dir != "." && !unitfile.IsName(by)) {
				t.Errorf("%q: link %s", text, link)
			}
		}
	})
}
