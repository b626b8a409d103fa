package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/image/manifest"
)

// Verify opens the build in dir and checks every claim of its manifest against
// the bytes. Whole files are summed up, which takes longest, only where their
// parts hold.
func Verify(dir string) (manifest.Manifest, error) {
	text, err := os.ReadFile(filepath.Join(dir, ManifestName))
	if err != nil {
		return manifest.Manifest{}, err
	}

	m, err := manifest.Decode(text)
	if err != nil {
		return manifest.Manifest{}, err
	}

	out, err := openOutputs(dir, m)
	defer out.close()
	if err != nil {
		return manifest.Manifest{}, err
	}

	signature, err := ReadSignature(dir, m)
	if err != nil {
		return m, err
	}

	err = errors.Join(
		verifySums(dir, m, text),
		verifyDisk(out, m, signature),
		verifyUpdate(dir, m, signature),
	)
	if err != nil {
		return m, err
	}

	if err := verifyLive(dir, out, m); err != nil {
		return m, err
	}

	return m, verifyFiles(dir, m.Files)
}

// outputs are the files of a build that Verify looks into, by suffix.
type outputs map[string]*os.File

func openOutputs(dir string, m manifest.Manifest) (outputs, error) {
	out := outputs{}
	for _, suffix := range []string{
		".raw", ".root", ".verity", ".efi", pxeSuffix, kernelSuffix, initrdSuffix, stickSuffix,
	} {
		output, ok := m.Output(suffix)
		if !ok {
			return out, fmt.Errorf("%s: no file *%s", ManifestName, suffix)
		}

		f, err := os.Open(filepath.Join(dir, output.Name))
		if err != nil {
			return out, err
		}

		out[suffix] = f
	}

	return out, nil
}

func (o outputs) close() {
	for _, f := range o {
		f.Close()
	}
}

func verifyFiles(dir string, files []manifest.File) error {
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}

	have, err := describe(dir, names)
	if err != nil {
		return err
	}

	for i, f := range have {
		if f != files[i] {
			return fmt.Errorf("%s: %d bytes, SHA-256 %s; manifest: %d bytes, %s",
				f.Name, f.Size, f.SHA256, files[i].Size, files[i].SHA256)
		}
	}

	return nil
}

// verifySums compares SHA256SUMS with the sums in the manifest. text is the
// content of the manifest's file.
func verifySums(dir string, m manifest.Manifest, text []byte) error {
	have, err := os.ReadFile(filepath.Join(dir, SumsName))
	if err != nil {
		return err
	}

	want := sums(m, text)
	if string(have) == want {
		return nil
	}

	for line := range strings.Lines(want) {
		if !strings.Contains(string(have), line) {
			return fmt.Errorf("%s: lacks the line %q", SumsName, strings.TrimSpace(line))
		}
	}

	return fmt.Errorf("%s: has more lines than the manifest has files", SumsName)
}
