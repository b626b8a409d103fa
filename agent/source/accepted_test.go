package source_test

import (
	"errors"
	"testing"

	"github.com/loam-os/loam/agent/source"
)

// TestTheFirstDocumentStays: once a node has had a machine.yaml, only its own
// drive can give it another.
func TestTheFirstDocumentStays(t *testing.T) {
	own := fakeDrive{"machine.yaml": "first", "serial": "S1"}
	edited := fakeDrive{"machine.yaml": "edited", "serial": "S1"}
	other := fakeDrive{"machine.yaml": "other", "serial": "S2"}
	nameless := fakeDrive{"machine.yaml": "first"}
	renamed := fakeDrive{"machine.yaml": "first", "meta-data": "local-hostname: other\n"}

	first := func(d fakeDrive) *source.Accepted {
		doc, err := source.Find(t.Context(), source.Env{Drives: on(d)})
		if err != nil {
			t.Fatal(err)
		}
		a := source.Accept(doc, nil)
		return &a
	}
	esp := source.Accept(source.Document{Kind: source.FromESP, Text: []byte("first")}, nil)

	for _, test := range []struct {
		name     string
		accepted *source.Accepted
		drives   []source.Drive
		want     string // "" if none
		wantErr  bool
	}{
		{"no document yet", nil, []source.Drive{other}, "other", false},
		{"no document yet, and two drives", nil, []source.Drive{own, other}, "", true},
		{"the same drive", first(own), []source.Drive{own}, "first", false},
		{"the same drive, edited", first(own), []source.Drive{edited}, "edited", false},
		{"the same drive, and another", first(own), []source.Drive{other, own}, "first", false},
		{"the drive is gone, and another is there", first(own), []source.Drive{other}, "", false},
		{"the drive is gone", first(own), nil, "", false},
		{
			"a drive without a serial number",
			first(nameless),
			[]source.Drive{nameless},
			"first",
			false,
		},
		{
			"a drive without a serial number, and another text",
			first(nameless),
			[]source.Drive{fakeDrive{"machine.yaml": "other"}},
			"",
			false,
		},
		{
			"a drive without a serial number, and another host name",
			first(nameless),
			[]source.Drive{renamed},
			"",
			false,
		},
		{
			"a drive without a serial number, and a stranger's",
			first(nameless),
			[]source.Drive{fakeDrive{"machine.yaml": "other"}, nameless},
			"first",
			false,
		},
		{
			"a stranger's without a serial number, and another",
			first(nameless),
			[]source.Drive{fakeDrive{"machine.yaml": "other"}, fakeDrive{"machine.yaml": "third"}},
			"",
			false,
		},
		{
			"a stranger's without a serial number, for cloud-init only",
			first(nameless),
			[]source.Drive{fakeDrive{"user-data": "#cloud-config\n"}},
			"",
			false,
		},
		{
			"a stranger's without a serial number that cannot be read, and the node's",
			first(nameless),
			[]source.Drive{fakeDrive{"broken": "yes"}, nameless},
			"first",
			false,
		},
		{
			"a stranger's with the same serial number",
			first(own),
			[]source.Drive{fakeDrive{"machine.yaml": "other", "serial": "S1"}, own},
			"first",
			false,
		},
		{
			"two strangers' with the same serial number",
			first(own),
			[]source.Drive{edited, fakeDrive{"machine.yaml": "other", "serial": "S1"}},
			"",
			false,
		},
		{"a drive with a serial number instead", first(nameless), []source.Drive{own}, "", false},
		{"the document was on the ESP, which has none now", &esp, []source.Drive{own}, "", false},
		{"a damaged record", &source.Accepted{}, []source.Drive{own}, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			doc, err := source.Find(t.Context(), source.Env{
				Drives:   on(test.drives...),
				Accepted: test.accepted,
			})
			if string(doc.Text) != test.want {
				t.Errorf("%q, want %q", doc.Text, test.want)
			}
			if none := errors.Is(err, source.ErrNone); none != (test.want == "" && !test.wantErr) ||
				(err != nil && !none) != test.wantErr {
				t.Errorf("error %v", err)
			}
			if test.accepted == nil || test.accepted.Text == "" {
				return
			}

			// Once the node is configured, no drive is opened.
			doc, err = source.Find(t.Context(), source.Env{
				Drives: func() ([]source.Drive, error) {
					t.Error("drives are looked for")
					return nil, nil
				},
				Accepted:   test.accepted,
				Configured: true,
			})
			if string(doc.Text) != "first" || err != nil || !doc.Kept {
				t.Errorf("with a configuration: %q, %v", doc.Text, err)
			}
		})
	}
}

// TestARecordWithoutATextOfAConfiguredNode, as versions before made it: the same drive
// with the same text counts, and nothing else.
func TestARecordWithoutATextOfAConfiguredNode(t *testing.T) {
	own := fakeDrive{"machine.yaml": "first", "serial": "S1"}
	doc, err := source.Find(t.Context(), source.Env{Drives: on(own)})
	if err != nil {
		t.Fatal(err)
	}
	before := source.Accept(doc, nil)
	before.Text = ""
	for _, test := range []struct {
		name  string
		drive fakeDrive
		want  string
	}{
		{"the same drive", own, "first"},
		{"edited", fakeDrive{"machine.yaml": "edited", "serial": "S1"}, ""},
		{"the same text on another drive", fakeDrive{"machine.yaml": "first", "serial": "S2"}, ""},
	} {
		doc, err := source.Find(t.Context(), source.Env{
			Drives: on(test.drive), Accepted: &before, Configured: true,
		})
		if string(doc.Text) != test.want || (test.want == "") != errors.Is(err, source.ErrNone) {
			t.Errorf("%s: %q, %v", test.name, doc.Text, err)
		}
	}
}

// Other places belong to the owner of the machine: a hypervisor, or its ESP.
func TestAnotherPlaceStillCounts(t *testing.T) {
	a := source.Accept(source.Document{Kind: source.FromDrive, Serial: "S1"}, nil)
	doc, err := source.Find(t.Context(), source.Env{
		ESP:      fakeESP{"/loam/machine.yaml": "from the ESP"},
		Drives:   on(fakeDrive{"machine.yaml": "first", "serial": "S1"}),
		Accepted: &a,
	})
	if err != nil || string(doc.Text) != "from the ESP" || doc.Kind != source.FromESP {
		t.Errorf("%q of %s, %v", doc.Text, doc.Kind, err)
	}
}
