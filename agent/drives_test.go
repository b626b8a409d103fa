package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/drive"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/hint"
)

func TestWhichDrivesAreNews(t *testing.T) {
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
		if got := test.drives.watched(); got != test.want {
			t.Errorf("%s: %t, want %t", test.name, got, test.want)
		}
	}
}

func TestADriveThatDoesNotCountIsAWarning(t *testing.T) {
	config := func(device string) source.Drive {
		return configDrive{drive.Drive{
			Device:     device,
			FileSystem: drive.FileSystem{Type: "vfat", Label: "CIDATA"},
		}}
	}

	both := []source.Drive{config("/dev/sda"), config("/dev/sdb")}
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
		if (err == nil) != (test.want == "") || err != nil &&
			(!strings.HasPrefix(err.Error(), test.want) ||
				!strings.Contains(hint.Text(err), "hint: detach it")) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// TestTheDocumentIsRecorded of a node that is in no reset, and a reset is what
// forgets it.
func TestTheDocumentIsRecorded(t *testing.T) {
	n := unidentified(t)
	doc := source.Document{Kind: source.FromDrive, Serial: "S1", Text: []byte("first")}
	if a := n.accepted(); a != nil {
		t.Fatalf("a new node has %+v", a)
	}

	n.Drives = &Drives{asked: true}
	n.accept(doc, machine.Machine{}, nil)
	got := n.accepted()
	if got == nil || *got != source.Accept(doc, nil) || n.Drives.watched() {
		t.Fatalf("%+v, watched %t", got, n.Drives.watched())
	}

	doc.Text = []byte("edited")
	n.accept(doc, machine.Machine{}, got)
	if again := n.accepted(); *again != source.Accept(doc, nil) {
		t.Errorf("%+v", again)
	}

	if err := n.root.WriteFile("var/lib/loam/machine.json", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := n.accepted(); a == nil || len(n.status.Warnings) != 1 {
		t.Errorf("damaged: %+v, warnings %q", a, n.status.Warnings)
	}

	_, err := source.Find(t.Context(), source.Env{Accepted: n.accepted()})
	if !errors.Is(err, source.ErrNone) {
		t.Error(err)
	}
}

// TestAConfigurationWithoutADocument: a node that an operator gave one takes no drive's
// document, unless the configuration was taken back.
func TestAConfigurationWithoutADocument(t *testing.T) {
	n := unidentified(t)
	n.runsVersion("1.2.3")
	n.beforeChange()
	if a := n.accepted(); a != nil {
		t.Errorf("before its configuration: record %+v", a)
	}
	n.runsA(t, "1.2.3")

	a := n.accepted()
	if a == nil || *a != (source.Accepted{}) {
		t.Errorf("record %+v, want an empty one", a)
	}

	n.Drives = &Drives{asked: true, accepted: a}
	if n.Drives.watched() {
		t.Error("a drive that appears may give it another document")
	}

	n.runsVersion("")
	if err := n.root.RemoveAll("var/lib/loam/os"); err != nil {
		t.Fatal(err)
	}
	if a := n.accepted(); a != nil {
		t.Errorf("taken back: record %+v", a)
	}
}
