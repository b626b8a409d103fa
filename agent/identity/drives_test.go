package identity

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/test/files"
)

func TestOtherDrivesAreNews(t *testing.T) {
	for _, test := range []struct {
		name       string
		known, now int
		want       bool
	}{
		{"none, as before", 0, 0, false},
		{"the first", 0, 1, true},
		{"the one that was read", 1, 1, false},
		{"a second beside it", 1, 2, true},
		{"it was read, and is taken away", 1, 0, false},
		{"one of two is taken away", 2, 1, true},
		{"both of two are taken away", 2, 0, true},
		{"still two", 2, 2, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := (&Drives{known: test.known}).others(test.now); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}

// TestDrivesAreWatchedUntilThereWasADocument, so that a USB drive that is
// plugged into a running node, or a volume of a pod, does nothing.
func TestDrivesAreWatchedUntilThereWasADocument(t *testing.T) {
	for _, test := range []struct {
		name   string
		drives *Drives
		want   bool
	}{
		{"no drives in this environment", nil, false},
		{"a place before them has a document", &Drives{}, false},
		{"none was there", &Drives{asked: true}, true},
		{"one was there, and is of no use", &Drives{asked: true, known: 1}, true},
		{"there was a document", &Drives{asked: true, accepted: &source.Accepted{}}, false},
	} {
		if got := test.drives.Watched(); got != test.want {
			t.Errorf("%s: %t, want %t", test.name, got, test.want)
		}
	}
}

// named is a drive with that name.
type named string

func (n named) String() string { return string(n) }

func (n named) Serial() string { return "" }

func (n named) Read(int64, ...string) (map[string][]byte, error) { return nil, nil }

func TestADriveThatDoesNotCountIsAWarning(t *testing.T) {
	both := []source.Drive{named("drive /dev/sda (CIDATA)"), named("drive /dev/sdb (CIDATA)")}
	own := source.Document{Name: "machine.yaml of drive /dev/sda (CIDATA)"}
	for _, test := range []struct {
		name   string
		drives Drives
		read   source.Document
		want   string // "" for no warning
	}{
		{
			"a second",
			Drives{found: both, accepted: &source.Accepted{}},
			own,
			"ignored drive /dev/sdb (CIDATA):",
		},
		{"the node's own", Drives{found: both[:1], accepted: &source.Accepted{}}, own, ""},
		{
			"both, and none is the node's",
			Drives{found: both, accepted: &source.Accepted{}},
			source.Document{},
			"ignored drive /dev/sda (CIDATA), drive /dev/sdb (CIDATA):",
		},
		{"no document yet", Drives{found: both}, source.Document{}, ""},
	} {
		err := test.drives.ignored(test.read)
		if (err == nil) != (test.want == "") || (err != nil &&
			(!strings.HasPrefix(err.Error(), test.want) ||
				!strings.Contains(hint.Text(err), "hint: detach it"))) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// newNode is a node without any disk or machine.yaml.
func newNode(t *testing.T) Store {
	t.Helper()
	root := files.Root(t)
	if err := root.MkdirAll("var/lib/loam", 0o755); err != nil {
		t.Fatal(err)
	}
	return Store{
		Records: durable.New(root, nil),
		Path:    root.Name(),
		Uptime:  func() time.Duration { return time.Hour },
		Now:     time.Now,
		Log:     zap.NewNop(),
	}
}

// accepted returns the record, which is not damaged.
func accepted(t *testing.T, s Store) *source.Accepted {
	t.Helper()
	a, err := s.Accepted()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestTheDocumentIsRecorded of a node that is in no reset, and a reset is what
// forgets it.
func TestTheDocumentIsRecorded(t *testing.T) {
	s := newNode(t)
	doc := source.Document{Kind: source.FromDrive, Serial: "S1", Text: []byte("first")}
	if a := accepted(t, s); a != nil {
		t.Fatalf("a new node has %+v", a)
	}

	s.Drives = &Drives{asked: true}
	if err := s.Accept(doc, machine.Machine{}, nil); err != nil {
		t.Fatal(err)
	}
	got := accepted(t, s)
	if got == nil || *got != source.Accept(doc, nil) || s.Drives.Watched() {
		t.Fatalf("%+v, watched %t", got, s.Drives.Watched())
	}

	doc.Text = []byte("edited")
	if err := s.Accept(doc, machine.Machine{}, got); err != nil {
		t.Fatal(err)
	}
	if again := accepted(t, s); *again != source.Accept(doc, nil) {
		t.Errorf("%+v", again)
	}

	if err := s.Records.Root().WriteFile(source.AcceptedName, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, err := s.Accepted()
	if damaged == nil || err == nil {
		t.Errorf("damaged: %+v, %v", damaged, err)
	}

	_, err = source.Find(t.Context(), source.Env{Accepted: damaged})
	if !errors.Is(err, source.ErrNone) {
		t.Error(err)
	}
}

// TestAConfigurationWithoutADocument: a node that an operator gave one takes no drive's
// document, unless the configuration was taken back.
func TestAConfigurationWithoutADocument(t *testing.T) {
	s := newNode(t)
	s.BeforeChange()
	if a := accepted(t, s); a != nil {
		t.Errorf("before its configuration: record %+v", a)
	}

	state, err := s.Records.Root().OpenRoot("var/lib/loam")
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	m := generation.Manifest{Number: 1, Digest: strings.Repeat("1", 64), OSVersion: "1.2.3"}
	store := generation.Open(durable.New(state, nil))
	if err := errors.Join(store.Write(m, nil), store.Activate("1.2.3", m.Name())); err != nil {
		t.Fatal(err)
	}

	a := accepted(t, s)
	if a == nil || *a != (source.Accepted{}) {
		t.Errorf("record %+v, want an empty one", a)
	}

	s.Drives = &Drives{asked: true, accepted: a}
	if s.Drives.Watched() {
		t.Error("a drive that appears may give it another document")
	}

	if err := state.RemoveAll("os"); err != nil {
		t.Fatal(err)
	}
	if a := accepted(t, s); a != nil {
		t.Errorf("taken back: record %+v", a)
	}
}
