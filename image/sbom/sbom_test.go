package sbom

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/image/manifest"
)

func about(t *testing.T) About {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program,
		"../../cmd/init").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	return About{
		ImageID:   "loam",
		Version:   "1.0",
		Arch:      "amd64",
		Profile:   "cloud",
		Namespace: "urn:uuid:00000000-0000-0000-0000-000000000001",
		Created:   time.Unix(1e9, 0),
		Packages: []manifest.Package{
			{Name: "libstdc++6", Version: "14.2.0-19", Arch: "amd64"},
			{Name: "libstdc-2b--2b-6", Version: "1", Arch: "amd64"},
			{
				Name:          "login",
				Version:       "1:4.16.0-2+really2.41-5",
				Arch:          "amd64",
				Source:        "util-linux",
				SourceVersion: "2.41-5",
			},
			{Name: "bash", Version: "5.2+b1", Arch: "amd64", SourceVersion: "5.2"},
		},
		Programs: []string{program},
	}
}

func TestAnEncodedSBOMIsDecoded(t *testing.T) {
	a := about(t)
	text, err := Encode(a)
	if err != nil {
		t.Fatal(err)
	}

	got, err := Decode(text)
	if err != nil || len(got) < len(a.Packages) {
		t.Fatalf("%v, %v", got, err)
	}
	if diff := cmp.Diff(a.Packages, got[:len(a.Packages)]); diff != "" {
		t.Error(diff)
	}

	for _, p := range got[len(a.Packages):] {
		if p.Arch != "" || p.Version == "" {
			t.Errorf("a module %+v", p)
		}
	}

	if !strings.Contains(string(text), `pkg:golang/golang.org/x/sys@v`) ||
		!strings.Contains(string(text), `pkg:deb/debian/libstdc%2B%2B6@`) ||
		!strings.Contains(string(text),
			`pkg:deb/debian/login@1%3A4.16.0-2%2Breally2.41-5?arch=amd64\u0026upstream=util-linux@2.41-5"`) {
		t.Errorf("no such locators in %.2000s", text)
	}

	again, err := Encode(a)
	if err != nil || !bytes.Equal(again, text) {
		t.Errorf("twice is not the same, %v", err)
	}
}

// TestIdentifiersAreThoseOfTheStandard (SPDX 2.3, 7.2): each is there once, and
// what relationships name is there.
func TestIdentifiersAreThoseOfTheStandard(t *testing.T) {
	text, err := Encode(about(t))
	if err != nil {
		t.Fatal(err)
	}

	var doc struct {
		SPDXID   string
		Packages []struct{ SPDXID string }

		Relationships []struct{ SPDXElementID, RelatedSPDXElement string }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}

	there := map[string]bool{doc.SPDXID: true}
	for _, p := range doc.Packages {
		if there[p.SPDXID] ||
			!regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`).MatchString(p.SPDXID) {
			t.Errorf("%s", p.SPDXID)
		}
		there[p.SPDXID] = true
	}

	if len(doc.Relationships) != len(doc.Packages) {
		t.Errorf("%d relationships of %d packages", len(doc.Relationships), len(doc.Packages))
	}

	for _, r := range doc.Relationships {
		if !there[r.SPDXElementID] || !there[r.RelatedSPDXElement] {
			t.Errorf("%+v: not there", r)
		}
	}
}

// TestDecodeWhatNobodyEncodes: a package that is null has nothing, and no
// document is an error.
func TestDecodeWhatNobodyEncodes(t *testing.T) {
	for text, ok := range map[string]bool{
		`{}`: false, `null`: false, `{"spdxVersion": "SPDX-3.0"}`: false,
		`{"spdxVersion": "SPDX-2.3", "packages": {}}`:                               false,
		`{"spdxVersion": "SPDX-2.3", "packages": [null, {"externalRefs": [null]}]}`: true,
	} {
		if all, err := Decode([]byte(text)); (err == nil) != ok || len(all) > 0 {
			t.Errorf("%s: %v, %v", text, all, err)
		}
	}
}

// TestTheMainModuleIsThere: a program of another project lists the project
// itself, beside what it depends on.
func TestTheMainModuleIsThere(t *testing.T) {
	a := about(t)
	program := filepath.Join(t.TempDir(), "tomljson")
	out, err := exec.Command("go", "build", "-o", program,
		"github.com/pelletier/go-toml/v2/cmd/tomljson").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	a.Programs = append(a.Programs, program)
	text, err := Encode(a)
	if err != nil {
		t.Fatal(err)
	}

	if !strings.Contains(string(text), `pkg:golang/github.com/pelletier/go-toml/v2@v2.`) {
		t.Errorf("no such locator in %.2000s", text)
	}
	if strings.Contains(string(text), "(devel)") {
		t.Error("a module without a version")
	}
}
