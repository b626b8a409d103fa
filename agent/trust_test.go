package agent

import (
	"bytes"
	"crypto/ed25519"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/files"
)

// signer is a key that signs machine.yaml.
func signer(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

// trusting returns a machine.yaml that names the keys.
func trusting(name string, keys ...ed25519.PrivateKey) string {
	text := "apiVersion: loam.dev/v1alpha1\nkind: Machine\nhostname: " + name +
		"\nsource: {file: {path: /srv/config.yaml}}\n"
	var all []string
	for _, key := range keys {
		all = append(all, trust.FormatKey(key.Public().(ed25519.PublicKey)))
	}
	if all != nil {
		text += "trust: {keys: [" + strings.Join(all, ", ") + "]}\n"
	}
	return text
}

func signedBy(t *testing.T, text string, serial uint64, key ed25519.PrivateKey) string {
	t.Helper()
	out, err := trust.Sign([]byte(text), serial, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// start is what a start of the agent makes of the document.
type start struct {
	document string // "" if none
	want     string // host name
	// warning begins the only warning, code is the code of the error.
	warning string
	code    fault.Code
}

// TestANodeGoesOnWithWhatItAccepted. Each row is a list of starts of one node,
// with another document each time.
func TestANodeGoesOnWithWhatItAccepted(t *testing.T) {
	one, two := signer(1), signer(2)
	const refused = "machine-not-trusted: "
	invalid := "apiVersion: loam.dev/v1alpha1\nkind: Machine\nhostnam: a\n"

	for _, test := range []struct {
		name, cmdline string
		starts        []start
	}{
		{
			name: "the first document names a key",
			starts: []start{
				{document: trusting("a", one), want: "a"},
				{document: trusting("a", one), want: "a"},
				{document: trusting("b"), want: "a", warning: refused},
				{document: signedBy(t, trusting("b"), 1, two), want: "a", warning: refused},
				{document: "damaged: [", want: "a", warning: refused},
				{document: "", want: "a"},
				{document: signedBy(t, trusting("b", one), 2, one), want: "b"},
				{document: signedBy(t, trusting("c", one), 1, one), want: "b", warning: refused},
				{document: signedBy(t, invalid, 3, one), want: "b", warning: "document-invalid: "},
				{document: signedBy(t, trusting("c", one), 3, one), want: "c"},
			},
		},
		{
			name: "another key, by a document that the old key has signed",
			starts: []start{
				{document: trusting("a", one), want: "a"},
				{document: signedBy(t, trusting("b", two), 1, one), want: "b"},
				{document: signedBy(t, trusting("c", one), 2, one), want: "b", warning: refused},
				{document: signedBy(t, trusting("c", two), 2, two), want: "c"},
			},
		},
		{
			name: "no key any more, by a document that the old key has signed",
			starts: []start{
				{document: trusting("a", one), want: "a"},
				{document: signedBy(t, trusting("b"), 1, one), want: "b"},
				{document: trusting("c"), want: "c"},
			},
		},
		{
			name: "a key of the image, which no document takes away",
			cmdline: "loam.trust=" + trust.FormatKey(
				one.Public().(ed25519.PublicKey)),
			starts: []start{
				{document: trusting("a"), code: fault.MachineNotTrusted},
				{document: signedBy(t, trusting("a"), 1, one), want: "a"},
				{document: signedBy(t, trusting("b", two), 2, one), want: "b"},
				{document: trusting("c"), want: "b", warning: refused},
				{document: signedBy(t, trusting("c"), 3, two), want: "c"},
				{document: trusting("d"), want: "c", warning: refused},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := unidentified(t)
			files.Write(t, filepath.Join(n.Root, "proc/cmdline"), test.cmdline)
			for i, s := range test.starts {
				again := n.startWith(t, s.document)
				got := start{document: s.document, want: again.status.Hostname}
				if e := again.status.Error; e != nil {
					got.code = e.Code
				}
				if w := again.status.Warnings; len(w) > 0 && strings.HasPrefix(w[0], s.warning) {
					got.warning = s.warning
				}
				if got != s || len(again.status.Warnings) > 1 {
					t.Fatalf("start %d: %+v, want %+v; warnings %q, error %+v",
						i+1, got, s, again.status.Warnings, again.status.Error)
				}
				if follows := again.source != nil; follows != (s.want != "") {
					t.Errorf("start %d: follows a source: %t", i+1, follows)
				}
			}
		})
	}
}

// startWith is a start of the agent on the node with that machine.yaml.
func (n *testNode) startWith(t *testing.T, document string) *testNode {
	t.Helper()
	again := &testNode{&life{node: &node{
		Env:      n.Env,
		root:     n.root,
		data:     n.data,
		etcdData: n.etcdData,
		engine:   n.engine,
	}}}
	if document == "" {
		if err := n.root.RemoveAll(strings.TrimPrefix(source.RunPath, "/")); err != nil {
			t.Fatal(err)
		}
	} else {
		files.Write(t, filepath.Join(n.Root, source.RunPath), document)
	}
	again.reset = again.newReset()
	again.identify(t.Context())
	return again
}

// TestAResetForgetsTheKeysOfTheDocument, and its serial number.
func TestAResetForgetsTheKeysOfTheDocument(t *testing.T) {
	n := unidentified(t)
	one := signer(1)
	first := n.startWith(t, signedBy(t, trusting("a", one), 5, one))
	if !strings.HasSuffix(first.status.Machine, "/machine.yaml, serial 5") {
		t.Errorf("machine.yaml from %s", first.status.Machine)
	}
	if got := n.startWith(t, trusting("b")); got.status.Hostname != "a" {
		t.Fatalf("host name %q", got.status.Hostname)
	}

	text, err := n.root.ReadFile(source.AcceptedName)
	if err != nil || !bytes.Contains(text, []byte(`"signedSerial":5`)) {
		t.Fatalf("%s, %v", text, err)
	}
	if info, err := n.root.Stat(source.AcceptedName); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	if err := durable.New(n.root, nil).Remove(source.AcceptedName); err != nil {
		t.Fatal(err)
	}
	if got := n.startWith(t, trusting("b")); got.status.Hostname != "b" {
		t.Errorf("host name %q", got.status.Hostname)
	}
}

// TestAPowerCutBeforeTheRecord: the next start finds the same document, and
// takes it again.
func TestAPowerCutBeforeTheRecord(t *testing.T) {
	n := unidentified(t)
	one := signer(1)
	n.startWith(t, trusting("a", one))
	before, err := n.root.ReadFile(source.AcceptedName)
	if err != nil {
		t.Fatal(err)
	}

	second := signedBy(t, trusting("b", one), 1, one)
	for i := range 2 {
		if got := n.startWith(t, second); got.status.Hostname != "b" {
			t.Errorf("start %d: host name %q", i, got.status.Hostname)
		}
		files.Write(t, filepath.Join(n.Root, source.AcceptedName), string(before))
	}

	damaged := slices.Concat(before[:len(before)/2], []byte("\n"))
	files.Write(t, filepath.Join(n.Root, source.AcceptedName), string(damaged))
	if got := n.startWith(t, second); got.status.Hostname != "b" || len(got.status.Warnings) != 1 {
		t.Errorf("damaged record: host name %q, warnings %q", got.status.Hostname,
			got.status.Warnings)
	}
}
