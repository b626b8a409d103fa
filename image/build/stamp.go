package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/output"
	"github.com/loam-os/loam/image/rootfs"
)

// stamp says what an unsigned build was made from. It is in a file beside the
// build, so that the bytes of a build do not depend on it.
type stamp struct {
	// Inputs is the result of [Build.inputs], Manifest the SHA-256 of
	// manifest.json in hex.
	Inputs   string `json:"inputs"`
	Manifest string `json:"manifest"`
}

// stampFile returns the file of the stamp of the build in out.
func stampFile(out string) string { return out + ".stamp" }

// inputs returns the SHA-256, in hex, of what decides the bytes of an unsigned
// build. The directories of the trees are named by the digests of what they
// were made from.
func (b *Build) inputs(tree rootfs.Root, programs programs) (string, error) {
	spec, err := json.Marshal(b.Plan.Spec)
	if err != nil {
		return "", err
	}
	builder, err := os.Executable()
	if err != nil {
		return "", err
	}

	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s\n%s\n", spec, b.Tools.Dir, tree.Dir, b.Packages.Date)
	for _, file := range append(programs.all(), builder) {
		if err := hashFile(h, file); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// hashFile writes the SHA-256 of a file to w.
func hashFile(w io.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()

	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	_, err = w.Write(h.Sum(nil))
	return err
}

// writeStamp records that the build in out was made from inputs.
func writeStamp(out, inputs string) error {
	_, text, err := output.ReadManifest(out)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	encoded, err := json.Marshal(stamp{Inputs: inputs, Manifest: hex.EncodeToString(sum[:])})
	if err != nil {
		return err
	}
	return os.WriteFile(stampFile(out), append(encoded, '\n'), 0o644)
}

// unchanged returns the manifest of the build in out if that was made from
// inputs and none of its files was written to since.
func unchanged(out, inputs string) (m manifest.Manifest, ok bool) {
	text, err := os.ReadFile(stampFile(out))
	if err != nil {
		return m, false
	}
	written, err := os.Stat(stampFile(out))
	if err != nil {
		return m, false
	}
	var s stamp
	if err := json.Unmarshal(text, &s); err != nil || s.Inputs != inputs {
		return m, false
	}

	m, text, err = output.ReadManifest(out)
	if sum := sha256.Sum256(text); err != nil || hex.EncodeToString(sum[:]) != s.Manifest {
		return m, false
	}
	for _, f := range m.Files {
		info, err := os.Lstat(filepath.Join(out, f.Name))
		if err != nil || !info.Mode().IsRegular() || info.Size() != f.Size ||
			info.ModTime().After(written.ModTime()) {
			return m, false
		}
	}
	return m, true
}
