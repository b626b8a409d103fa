package generation

import (
	"path"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/unitfile"
)

// The links of a unit stay in the directory of units, whatever its [Install]
// section says.
func FuzzInstall(f *testing.F) {
	f.Add("a.service", "[Install]\nWantedBy=b.target \\\n c.target\nAlias=%p.service\n")
	f.Add("a@.service", "[Install]\nDefaultInstance=../../x\nWantedBy=%i.target\n")
	f.Add("a@b.service", "[Install]\nAlias=%%%i@.service\nUpheldBy=/x\n")

	f.Fuzz(func(t *testing.T, name, text string) {
		if name == "" || strings.Contains(name, "/") || !strings.HasSuffix(name, ".service") {
			return // Names are checked before.
		}
		links, err := installOf(unitfile.Parse(text)).links(name, "/etc/systemd/system/"+name)
		if err != nil {
			return
		}
		for link := range links {
			if dir := path.Dir(link); dir != unitDir && path.Dir(dir) != unitDir {
				t.Errorf("%q: link %s leaves the directory", text, link)
			}
		}
	})
}
