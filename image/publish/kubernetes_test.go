package publish

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/repository"
)

// kubernetes publishes a small Kubernetes bundle, whose programs say kind.
func (f *fixture) kubernetes(version, kind string) (repository.Kubernetes, error) {
	f.Helper()
	in := bundle.KubernetesSources{
		Version: version,
		Arch:    "amd64",
		Files:   map[string]bundle.Source{},
	}
	for _, name := range bundle.KubernetesPrograms() {
		text := []byte(strings.Repeat(kind+" "+name+"\n", 100))
		in.Files["bin/"+name] = bundle.Source{ReaderAt: bytes.NewReader(text), Size: int64(len(text))}
	}

	file := filepath.Join(f.TempDir(), "pack")
	pack, err := os.Create(file)
	f.ok(err)
	defer pack.Close()
	ix, err := bundle.WriteKubernetes(pack, in)
	f.ok(err)
	return PublishKubernetes(f.Context(), f.dir, f.keys, ix, file, DefaultExpiries(), f.now,
		meter.None)
}

func TestAKubernetesBundleIsPublished(t *testing.T) {
	f := newFixture(t)
	r := f.publish("1.0.0")
	old, err := f.kubernetes("1.35.9", "good")
	f.ok(err)
	k, err := f.kubernetes("1.36.10", "good")
	f.ok(err)

	news, err := repository.Update(t.Context(), f.store(), f.node,
		f.read("metadata/1.root.json"), repository.Clock{Now: f.now})
	f.ok(err)
	if diff := cmp.Diff([]repository.Kubernetes{k, old}, news.Kubernetes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]repository.Release{r}, news.Releases); diff != "" {
		t.Error(diff)
	}

	ix, err := k.Fetch(t.Context(), f.store())
	if err != nil || ix.Version != "1.36.10" || len(ix.Files) != 7 {
		t.Errorf("index %+v, %v", ix, err)
	}

	files, err := Verify(t.Context(), f.dir, meter.None)
	f.ok(err)
	var names []string
	for _, file := range files {
		names = append(names, file.Name)
	}
	text := strings.Join(names, " ")
	for _, want := range []string{ix.Pack.Name, old.Base() + ".pack", k.Stored(), old.Stored()} {
		if !strings.Contains(text, want) {
			t.Errorf("a copy would lack %s: %s", want, text)
		}
	}
}

func TestAKubernetesBundleAgain(t *testing.T) {
	f := newFixture(t)
	k, err := f.kubernetes("1.37.2", "good")
	f.ok(err)
	pack := k.Base() + ".pack"
	f.write(pack, []byte("damaged"))

	again, err := f.kubernetes("1.37.2", "good")
	f.ok(err)
	if _, err := Verify(t.Context(), f.dir, meter.None); err != nil || again != k {
		t.Errorf("not repaired: %v", err)
	}

	_, err = f.kubernetes("1.37.2", "other")
	if fault.Of(err) != fault.FileExists || !strings.Contains(hint.Text(err), "another repository") {
		t.Errorf("error %v", err)
	}
}

func TestADamagedKubernetesPackIsNamed(t *testing.T) {
	f := newFixture(t)
	k, err := f.kubernetes("1.37.2", "good")
	f.ok(err)
	f.flip(k.Base() + ".pack")
	if err := f.refresh(f.keys, f.now); fault.Of(err) != fault.RepositoryDamaged ||
		!strings.Contains(err.Error(), "kubernetes-1.37.2-amd64.pack: ") {
		t.Errorf("error %v", err)
	}
}

// TestProgramsThatKnowOnlyReleasesSkipKubernetes: what they see of it is not a
// release.
func TestProgramsThatKnowOnlyReleasesSkipKubernetes(t *testing.T) {
	f := newFixture(t)
	_, err := f.kubernetes("1.37.2", "good")
	f.ok(err)
	if list := f.updated(); len(list) != 0 {
		t.Errorf("releases %v", list)
	}
}
