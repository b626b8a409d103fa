package plan

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/generation"
)

// draw makes choices from bytes. When they are used up, it takes the first
// choice.
type draw []byte

func (d *draw) next(choices int) int {
	if len(*d) == 0 {
		return 0
	}
	b := (*d)[0]
	*d = (*d)[1:]
	return int(b) % choices
}

// desired draws from few names, so that two configurations overlap, and a file
// in one is a directory in the other.
func (d *draw) desired() config.Desired {
	var drawn config.Desired
	for _, name := range []string{"/etc/a", "/etc/b", "/opt/cni/a", "/var/lib/a"} {
		switch d.next(4) {
		case 0:
			continue
		case 1:
			name += "/x/y"
		}
		f := file(name, fmt.Sprint(d.next(2)))
		f.Mode = []fs.FileMode{0o600, 0o644, 0o755}[d.next(3)]
		drawn.Files = append(drawn.Files, f)
	}

	for _, name := range []string{
		"a.service", "containerd.service", "kubelet.service", "plain.service",
	} {
		if d.next(3) == 0 {
			continue
		}
		drawn.Units = append(drawn.Units, d.unit(name))
	}

	return drawn
}

func (d *draw) unit(name string) config.Unit {
	u := config.Unit{Name: name}
	if _, ofImage := image.Texts[name]; !ofImage || d.next(2) == 0 {
		u = own(name, fmt.Sprintf("[Service]\nEnvironment=A=%d\n[Install]\n"+
			"WantedBy=multi-user.target\n", d.next(2)), "/etc/a")
	}
	for i, edit := range []func(*config.Unit){disable, stop, dropIn(fmt.Sprint(d.next(2)))} {
		if d.next(3) == i {
			edit(&u)
		}
	}
	return u
}

// model is the managed paths of a node.
type model map[string]generation.Entry

func modelOf(m generation.Manifest) model { return entriesByPath(m.Entries) }

// play applies the file changes to the model: first the removals, then only the
// other changes of the plan.
func (m model) play(files []File, want model) error {
	for _, f := range files {
		if _, had := m[f.Path]; had == (f.Change == Added) {
			return fmt.Errorf("%s %s: it existed: %v", f.Path, f.Change, had)
		}
		if f.Change == Removed {
			delete(m, f.Path)
		}
	}

	for _, f := range files {
		e := m[f.Path]
		switch f.Change {
		case Removed:
			continue
		case ModeOnly:
			e.Mode = want[f.Path].Mode
		default:
			e = want[f.Path]
		}

		for dir := path.Dir(f.Path); dir != "/"; dir = path.Dir(dir) {
			if _, is := m[dir]; is {
				return fmt.Errorf("%s %s: %s is a file", f.Path, f.Change, dir)
			}
		}

		m[f.Path] = e
	}

	return nil
}

// roundtrip applies the plans from a to b and back.
func roundtrip(t *testing.T, a, b config.Desired) {
	t.Helper()
	node := modelOf(manifest(t, 1, a))
	ways := []config.Desired{a, b, a}
	for i := range 2 {
		have := manifest(t, 1, ways[i])
		want := manifest(t, 2, ways[i+1])
		if p := Diff(have, have, nil); !p.Empty() {
			t.Errorf("from itself to itself: %s", p)
		}

		p := Diff(have, want, nil)
		if err := node.play(p.Files, modelOf(want)); err != nil {
			t.Error(err)
		}

		if diff := cmp.Diff(modelOf(want), maps.Clone(node)); diff != "" {
			t.Errorf("%s\nleads elsewhere (-want +got):\n%s", p, diff)
		}
		if !slices.IsSortedFunc(p.Units, func(a, b Action) int { return a.Stage() - b.Stage() }) {
			t.Errorf("units out of order:\n%s", p)
		}

		named := map[string]int{}
		for _, a := range slices.Concat(p.Units, p.Kept) {
			named[a.Unit]++
			if named[a.Unit] > 1 {
				t.Errorf("%s is listed twice:\n%s", a.Unit, p)
			}
		}
	}
}

func TestRoundtrip(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
		text := make(draw, 96)
		_, _ = random.Read(text)
		roundtrip(t, text.desired(), text.desired())
	}
}

// FuzzDiff is TestRoundtrip for any configurations.
func FuzzDiff(f *testing.F) {
	f.Add([]byte{}, []byte{2, 1, 1})
	f.Add([]byte{2, 0, 0, 1, 1, 1}, []byte{1, 0, 0, 2, 1, 2})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		roundtrip(t, (*draw)(&a).desired(), (*draw)(&b).desired())
	})
}
