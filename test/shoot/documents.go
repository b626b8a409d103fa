package shoot

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/loam-os/loam/image/cache"
	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/program"
)

// Kinds of documents: the purposes of an OperatingSystemConfig.
const (
	Reconcile = "reconcile" // what a node agent applies
	Provision = "provision" // what the user data of a machine is made of
)

// Document is one OperatingSystemConfig as a Gardener has rendered it.
type Document struct {
	// Version is the version of Gardener.
	Version string

	// Name is unique among the documents of a kind and version.
	Name string

	// Varies says what is special about the Shoot, in words.
	Varies string

	// Kind is Reconcile or Provision.
	Kind string

	// Base is a document from which this one differs by one change of the
	// Shoot, what Varies says; both have the same certificates and keys. It is
	// nil for documents that others are based on.
	Base *Document

	// Object is the OperatingSystemConfig as the seed has it, for the extension
	// of the operating system.
	Object []byte

	// Secret is the manifest of the Secret in the Shoot that node agents watch,
	// and OSC its osc.yaml. Provision documents have none.
	Secret []byte
	OSC    []byte

	// NodeAgentConfiguration is the file config-VERSION.yaml of the document.
	NodeAgentConfiguration []byte

	// Files are the inline files of the document's spec, in its order.
	Files []File
}

// File is a decoded inline file.
type File struct {
	Path    string
	Mode    os.FileMode // 0 if the document has none
	Content []byte
}

// File returns the content of the inline file, or nil if absent.
func (d Document) File(path string) []byte {
	for _, f := range d.Files {
		if f.Path == path {
			return f.Content
		}
	}
	return nil
}

// Documents returns all documents of the newest version of Gardener, each after
// its base. Where they are not rendered yet, the test is skipped; with CI set,
// they are (which takes minutes), and what goes wrong is a failure.
func Documents(t testing.TB) []Document {
	t.Helper()
	return DocumentsOf(t, versions[0].name)
}

// DocumentsOf returns the documents of one of [Versions].
func DocumentsOf(t testing.TB, name string) []Document {
	t.Helper()
	judge.Long(t, instead)

	v, err := find(name)
	if err != nil {
		t.Fatal(err)
	}

	if os.Getenv("CI") == "" {
		dir, err := v.documents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); err != nil {
			t.Skipf("%v: go run ./test/shoot/build renders it, once, in minutes", err)
		}
	}

	documents, err := Render(t.Context(), t.Output(), name)
	if err != nil {
		t.Fatal(err)
	}

	return documents
}

// Render returns the documents of one of [Versions], each after its base. What
// is not in the cache yet is built and rendered, with a line on out for each.
func Render(ctx context.Context, out io.Writer, name string) ([]Document, error) {
	v, err := find(name)
	if err != nil {
		return nil, err
	}

	dir, err := v.render(ctx, out)
	if err != nil {
		return nil, err
	}

	return load(dir)
}

// Rendered returns the documents of the newest version of Gardener, for
// programs that are not tests. It renders them where they are not in the cache.
func Rendered(ctx context.Context, out io.Writer) ([]Document, error) {
	dir, err := versions[0].render(ctx, out)
	if err != nil {
		return nil, err
	}
	return load(dir)
}

// Build builds the programs of test/gardener and renders the documents of all
// versions, where they are not in the cache yet, with a line on out for each.
func Build(ctx context.Context, out io.Writer) error {
	for _, v := range versions {
		if _, err := v.render(ctx, out); err != nil {
			return err
		}
	}
	for _, m := range []program.Module{judging, reference, validating} {
		if _, err := m.Ensure(ctx, out); err != nil {
			return err
		}
	}
	return nil
}

// documents is the path in the cache of the version's documents.
func (v version) documents(ctx context.Context) (string, error) {
	entry, err := v.renderer().Entry(ctx)
	return entry + "-documents", err
}

// render renders the version's documents if they are not in the cache.
func (v version) render(ctx context.Context, out io.Writer) (string, error) {
	dir, err := v.documents(ctx)
	if err != nil {
		return "", err
	}

	return cache.Ensure(ctx, filepath.Dir(dir), filepath.Base(dir), func(tmp string) error {
		programs, err := v.renderer().Ensure(ctx, out)
		if err != nil {
			return err
		}

		start := time.Now()
		text, err := exec.CommandContext(ctx, programs["render"], "--out", tmp).CombinedOutput()
		if err != nil {
			return fmt.Errorf("render documents of Gardener %s: %w\n%s", v.name, err, text)
		}

		fmt.Fprintf(out, "%-44s %6.1f s\n",
			"documents of Gardener "+v.name, time.Since(start).Seconds())
		return nil
	})
}

// load reads the documents that the program render has written into dir.
func load(dir string) ([]Document, error) {
	text, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		return nil, err
	}

	var index struct {
		Version   string
		Documents []struct {
			Name, Varies, Base, Kind string

			Object, Secret, OSC, NodeAgentConfiguration string

			Files []struct{ Path, Permissions, File string }
		}
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("%s/index.json: %w", dir, err)
	}

	documents := make([]Document, len(index.Documents))
	known := map[[2]string]*Document{}
	for i, entry := range index.Documents {
		d := &documents[i]
		*d = Document{
			Version: index.Version,
			Name:    entry.Name,
			Varies:  entry.Varies,
			Kind:    entry.Kind,
			Base:    known[[2]string{entry.Kind, entry.Base}],
		}

		known[[2]string{d.Kind, d.Name}] = d
		if entry.Base != "" && d.Base == nil {
			return nil, fmt.Errorf("%s/index.json: %s: no document %q before it",
				dir, d.Name, entry.Base)
		}

		for _, part := range []struct {
			name    string
			content *[]byte
		}{
			{entry.Object, &d.Object},
			{entry.Secret, &d.Secret},
			{entry.OSC, &d.OSC},
			{entry.NodeAgentConfiguration, &d.NodeAgentConfiguration},
		} {
			if part.name == "" {
				continue
			}
			*part.content, err = os.ReadFile(filepath.Join(dir, part.name))
			if err != nil {
				return nil, err
			}
		}

		for _, file := range entry.Files {
			f := File{Path: file.Path}
			f.Content, err = os.ReadFile(filepath.Join(dir, file.File))
			if err != nil {
				return nil, err
			}

			mode, err := strconv.ParseUint("0"+file.Permissions, 8, 32)
			if err != nil {
				return nil, fmt.Errorf("%s/index.json: %s: %w", dir, file.Path, err)
			}

			f.Mode = os.FileMode(mode)
			d.Files = append(d.Files, f)
		}
	}

	return documents, nil
}
