// Package verify opens a build and checks each claim of its manifest against
// the bytes. [Build] is the function to use. What it checks, in this order:
//
//	manifest.json --> SHA256SUMS
//	              --> disk: partition table, slot A by its root hash, its
//	              |   signature, both UKIs on the ESP and what they say
//	              --> update bundle: the same system, the same files
//	              --> PXE set and installer: the same kernel and disk
//	              --> every file: size and digest
package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/output"
	"github.com/loam-os/loam/image/update"
)

// Build opens the build in dir and checks every claim of its manifest against
// the bytes. Whole files are summed up, which takes longest, only where their
// parts hold. report is told how far it is.
func Build(
	ctx context.Context, dir string, report meter.Report,
) (manifest.Manifest, error) {
	m, text, err := output.ReadManifest(dir)
	if err != nil {
		return manifest.Manifest{}, err
	}
	if err := check(ctx, dir, m, text, report); err != nil {
		return m, output.Damaged(err)
	}
	return m, nil
}

// check checks the claims of a manifest, whose text is text.
func check(
	ctx context.Context, dir string, m manifest.Manifest, text []byte, report meter.Report,
) error {
	out, err := openOutputs(dir, m)
	defer out.close()
	if err != nil {
		return err
	}

	signature, err := readSignature(dir, m)
	if err != nil {
		return err
	}

	part := meter.Begin(ctx, "verify", amount(m), report)
	err = errors.Join(
		verifySums(dir, m, text),
		verifyDisk(out, m, signature, part),
		update.Check(dir, m, signature),
	)
	if err != nil {
		return err
	}

	if err := verifyLive(dir, out, m, part); err != nil {
		return err
	}

	return output.Check(dir, m.Files, part)
}

// amount returns how many bytes Build reads: each file, and before that the root
// file system, on the disk and as a file, and the packed disk on the installer.
func amount(m manifest.Manifest) int64 {
	root, _ := m.Output(".root")
	packed, _ := m.Output(packedSuffix)
	all := 2*root.Size + packed.Size
	for _, f := range m.Files {
		all += f.Size
	}
	return all
}

// packedSuffix ends the name of the packed disk.
const packedSuffix = ".raw.zst"

// outputs are the files of a build that Build looks into, by suffix.
type outputs map[string]*os.File

func openOutputs(dir string, m manifest.Manifest) (outputs, error) {
	out := outputs{}
	for _, suffix := range []string{
		".raw", ".root", ".verity", ".efi",
		image.PXESuffix, image.KernelSuffix, image.InitrdSuffix, image.InstallerSuffix,
	} {
		output, ok := m.Output(suffix)
		if !ok {
			return out, fmt.Errorf("%s: no file *%s", image.ManifestName, suffix)
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

// verifySums compares SHA256SUMS with the sums in the manifest. text is the
// content of the manifest's file.
func verifySums(dir string, m manifest.Manifest, text []byte) error {
	have, err := os.ReadFile(filepath.Join(dir, image.SumsName))
	if err != nil {
		return err
	}

	want := output.Sums(m, text)
	if string(have) == want {
		return nil
	}

	for line := range strings.Lines(want) {
		if !strings.Contains(string(have), line) {
			return fmt.Errorf("%s: lacks the line %q", image.SumsName, strings.TrimSpace(line))
		}
	}

	return fmt.Errorf("%s: has more lines than the manifest has files", image.SumsName)
}
