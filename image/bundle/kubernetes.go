package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// KubernetesKind is the kind of the index of a Kubernetes bundle.
const KubernetesKind = "kubernetes"

// Places in a Kubernetes bundle: the directory of its programs, and an OCI
// layout.
const (
	ProgramsDir = "bin"
	ImagesDir   = "images"
)

// KubernetesPrograms are the programs of a Kubernetes bundle.
func KubernetesPrograms() []string {
	return []string{
		"etcd",
		"etcdutl",
		"kube-apiserver",
		"kube-controller-manager",
		"kube-proxy",
		"kube-scheduler",
		"kubelet",
	}
}

// KubernetesImages are the images of a Kubernetes bundle, by the last element of
// the names of their repositories.
func KubernetesImages() []string { return []string{"coredns", "pause"} }

// Kubernetes describes a Kubernetes bundle: the programs and images of one
// version of Kubernetes, for one architecture.
//
// Its chunks have 1 MiB. Two versions of a program in Go have no chunk of 64 KiB
// in common, and the larger ones make the pack a tenth smaller.
type Kubernetes struct {
	Format int    `json:"format"`
	Kind   string `json:"kind"`

	// Version is the version of Kubernetes, such as 1.37.2.
	Version string `json:"version"`

	// Arch as Go names it: amd64, arm64.
	Arch string `json:"arch"`

	// Files are sorted by their names.
	Files []File `json:"files"`
	Pack  Pack   `json:"pack"`
}

// File is a file of a Kubernetes bundle.
type File struct {
	// Name is relative, with slashes, and in ProgramsDir or ImagesDir.
	Name string `json:"name"`
	Part
}

// Executable reports whether the file is a program.
func (f File) Executable() bool { return path.Dir(f.Name) == ProgramsDir }

var kubernetesVersion = regexp.MustCompile(
	`^(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})$`)

// KubernetesBase is what the names of the bundle's files in a repository begin
// with. No release has such a name: these have an underscore.
func KubernetesBase(version, arch string) (string, error) {
	if arch != "amd64" && arch != "arm64" {
		return "", fmt.Errorf("arch %q: want amd64 or arm64", arch)
	}
	if !kubernetesVersion.MatchString(version) {
		return "", fmt.Errorf("version %.40q: want the version of Kubernetes, such as 1.37.2", version)
	}
	return KubernetesKind + "-" + version + "-" + arch, nil
}

// ParseKubernetes is [Parse] for the index of a Kubernetes bundle.
func ParseKubernetes(text []byte) (Kubernetes, error) {
	if len(text) > MaxIndex {
		return Kubernetes{}, fmt.Errorf("index: %d bytes, at most %d", len(text), MaxIndex)
	}

	dec := json.NewDecoder(bytes.NewReader(text))
	var ix Kubernetes
	if err := dec.Decode(&ix); err != nil {
		return Kubernetes{}, fmt.Errorf("index: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Kubernetes{}, errors.New("index: more after its end")
	}

	return ix, ix.Validate()
}

// Encode is [Index.Encode].
func (ix Kubernetes) Encode() ([]byte, error) {
	if err := ix.Validate(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(ix)
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	return append(text, '\n'), nil
}

// Validate returns the faults of the index.
func (ix Kubernetes) Validate() error {
	if ix.Format != Format || ix.Kind != KubernetesKind {
		return fmt.Errorf("index: %.20q of format %d, this program knows %q of format %d",
			ix.Kind, ix.Format, KubernetesKind, Format)
	}

	base, err := KubernetesBase(ix.Version, ix.Arch)
	if err == nil {
		err = ix.Pack.check(base)
	}
	if err == nil {
		err = ix.checkFiles()
	}
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	return nil
}

func (ix Kubernetes) checkFiles() error {
	var programs []string
	all, last := int64(0), ""
	for _, f := range ix.Files {
		if err := checkPlace(f.Name); err != nil {
			return err
		}
		if f.Name <= last {
			return fmt.Errorf("files: %q after %q", f.Name, last)
		}
		if err := f.check(ix.Pack.Size); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}

		all += f.Size
		if all > maxPart {
			return fmt.Errorf("%s: all files together have more than %d bytes", f.Name, int64(maxPart))
		}
		if f.Executable() {
			programs = append(programs, path.Base(f.Name))
		}
		last = f.Name
	}

	if want := KubernetesPrograms(); !slices.Equal(programs, want) {
		return fmt.Errorf("%s: programs %s, want %s", ProgramsDir, strings.Join(programs, ", "),
			strings.Join(want, ", "))
	}
	return nil
}

var fileName = regexp.MustCompile(`^(bin/[a-z-]+|images/(blobs/sha256/)?[a-z0-9][a-z0-9.-]*)$`)

// checkPlace refuses names that a bundle does not have, and so all that lead
// out of its directory.
func checkPlace(name string) error {
	if !fileName.MatchString(name) {
		return fmt.Errorf("files: name %.80q: want a program in %s, or a file of an OCI layout in %s",
			name, ProgramsDir, ImagesDir)
	}
	return nil
}

// KubernetesSources is what [WriteKubernetes] makes a bundle of. The files are
// by their names.
type KubernetesSources struct {
	Version, Arch string
	Files         map[string]Source
}

// WriteKubernetes writes the pack, as [Write] does. Equal sources give equal
// bytes.
func WriteKubernetes(pack io.Writer, in KubernetesSources) (Kubernetes, error) {
	base, err := KubernetesBase(in.Version, in.Arch)
	if err != nil {
		return Kubernetes{}, fmt.Errorf("bundle: %w", err)
	}

	w, err := newPacker(pack, MaxChunkSize, zstd.SpeedBestCompression)
	if err != nil {
		return Kubernetes{}, fmt.Errorf("bundle: %w", err)
	}
	defer w.enc.Close()

	ix := Kubernetes{
		Format:  Format,
		Kind:    KubernetesKind,
		Version: in.Version,
		Arch:    in.Arch,
	}
	for _, name := range slices.Sorted(maps.Keys(in.Files)) {
		part, err := w.part(in.Files[name])
		if err != nil {
			return Kubernetes{}, fmt.Errorf("bundle: %s: %w", name, err)
		}
		ix.Files = append(ix.Files, File{name, part})
	}

	ix.Pack = w.pack(base)
	return ix, ix.Validate()
}
