package shoot

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestDocumentsAreWhatGardenerSends(t *testing.T) {
	for _, version := range Versions() {
		t.Run(version, func(t *testing.T) {
			documents := DocumentsOf(t, version)

			kinds := map[string]int{}
			for _, d := range documents {
				kinds[d.Kind]++
				if d.Version != version {
					t.Errorf("%s: of Gardener %s", d.Name, d.Version)
				}
				if len(d.NodeAgentConfiguration) == 0 {
					t.Errorf("%s %s: no NodeAgentConfiguration", d.Kind, d.Name)
				}
				if d.Kind == Reconcile {
					checkSecret(t, d)
				}
			}

			if kinds[Reconcile] < 24 || kinds[Provision] < 5 {
				t.Errorf("%d documents for node agents and %d for first boots",
					kinds[Reconcile], kinds[Provision])
			}
		})
	}
}

// checkSecret checks that the Secret has the document, and its checksum.
func checkSecret(t *testing.T, d Document) {
	t.Helper()

	var secret struct {
		Metadata struct{ Annotations map[string]string }
		Data     map[string]string
	}
	if err := yaml.Unmarshal(d.Secret, &secret); err != nil {
		t.Fatal(err)
	}

	text, err := base64.StdEncoding.DecodeString(secret.Data["osc.yaml"])
	if err != nil || !bytes.Equal(text, d.OSC) {
		t.Errorf("%s: the Secret has another document: %v", d.Name, err)
	}

	sum := fmt.Sprintf("%x", sha256.Sum256(d.OSC))
	if got := secret.Metadata.Annotations["checksum/data-script"]; got != sum {
		t.Errorf("%s: checksum %s, not %s", d.Name, got, sum)
	}
}

func TestNeighboursDiffer(t *testing.T) {
	for _, d := range Documents(t) {
		if d.Base != nil && bytes.Equal(d.Object, d.Base.Object) {
			t.Errorf("%s %s: the same as %s, but %s", d.Kind, d.Name, d.Base.Name, d.Varies)
		}
	}
}

// A version without differences is worth no time in each test run.
func TestVersionsDiffer(t *testing.T) {
	names := Versions()
	for i, name := range names[1:] {
		older := map[string]Document{}
		for _, d := range DocumentsOf(t, name) {
			older[d.Kind+" "+d.Name] = d
		}

		different := 0
		for _, d := range DocumentsOf(t, names[i]) {
			old := strings.ReplaceAll(string(older[d.Kind+" "+d.Name].Object), name, names[i])
			if old != "" && old != string(d.Object) {
				different++
			}
		}

		if different == 0 {
			t.Errorf("Gardener %s renders nothing else than %s", names[i], name)
		}
	}
}
