package node

import (
	"bytes"
	"crypto/ed25519"
	"regexp"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/image"
)

// signer is a key that signs machine.yaml, and the key that nodes trust.
func signer() (ed25519.PrivateKey, string) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	return key, trust.FormatKey(key.Public().(ed25519.PublicKey))
}

func signed(t *testing.T, text string, serial uint64, key ed25519.PrivateKey) string {
	t.Helper()
	out, err := trust.Sign([]byte(text), serial, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestOnlySignedDocumentsConfigureANode whose first document names a key.
func TestOnlySignedDocumentsConfigureANode(t *testing.T) {
	matrix(t)
	b := open(t)
	key, public := signer()
	yaml := machineYAML(b.manifest.Arch, "trust: {keys: ["+public+"]}\n")
	stranger := strings.Replace(machineYAML(b.manifest.Arch, ""), "hello", "stranger", 1)
	second := strings.Replace(yaml, "hostname: hello", "hostname: second", 1)

	m := b.flash(t, b.file(".raw"))
	for _, start := range []struct {
		name, document, hostname, machine, warning string
	}{
		{
			name:     "the first document",
			document: yaml,
			hostname: "hello",
			machine:  "credential loam.machine",
		},
		{
			name:     "a stranger's document",
			document: stranger,
			hostname: "hello",
			machine:  "credential loam.machine, kept copy",
			warning:  "is not signed",
		},
		{
			name:     "a signed document",
			document: signed(t, second, 2, key),
			hostname: "second",
			machine:  "credential loam.machine, serial 2",
		},
		{
			name:     "an older one",
			document: signed(t, yaml, 1, key),
			hostname: "second",
			machine:  "credential loam.machine, serial 2, kept copy",
			warning:  "has serial 1",
		},
	} {
		n := m.on(t, map[string]string{"loam.machine": start.document})
		n.shell()
		n.says(func(s status.Status) bool {
			warned := len(s.Warnings) > 0 && strings.HasPrefix(s.Warnings[0],
				"machine-not-trusted: the node goes on with the machine.yaml that it accepted "+
					"before: credential loam.machine "+start.warning)
			return s.Hostname == start.hostname && s.Machine == start.machine &&
				warned == (start.warning != "")
		})
		n.want("hostname; stat -c %a /var/lib/loam/machine.json", start.hostname+"\n600")
		n.off()
	}
}

// TestOnlyASignedDocumentOverTheNetwork is taken by a system whose command line
// has a key.
func TestOnlyASignedDocumentOverTheNetwork(t *testing.T) {
	matrix(t)
	b := open(t)
	key, public := signer()
	yaml := machineYAML(b.manifest.Arch, "")

	p := b.origin(t, yaml)
	m := b.diskless(t, p)
	m.config.MemoryMB = liveMemory
	m.config.Cmdline = image.SetTrust(m.config.Cmdline, public)

	n := m.on(t, nil)
	n.expect(regexp.MustCompile(`machine\.yaml from http://10\.0\.2\.2:\d+ is not signed`))
	n.expect(regexp.MustCompile(`error +/run/loam/machine\.yaml is not signed`))
	n.pressPowerButton() // Nothing opens a shell.

	p.machine = signed(t, yaml, 1, key)
	n = m.on(t, nil)
	n.shell()
	n.says(func(s status.Status) bool { return s.Machine == "/run/loam/machine.yaml, serial 1" })
	n.off()
}
