package publish

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/meter"
)

const (
	packOfFixture = "loam-node-os_1.0.0_x86-64.pack"
	ukiOfFixture  = "loam-node-os_1.0.0_x86-64.efi"
)

// damages are what happens to files, by what the error says about them.
var damages = []struct {
	name, want string
	damage     func(f *fixture)
}{
	{
		"a pack that is cut off",
		packOfFixture + ": 10 bytes; want ",
		func(f *fixture) { f.change(packOfFixture, func(b []byte) []byte { return b[:10] }) },
	},
	{
		"a pack with another byte",
		packOfFixture + ": 202 bytes, SHA-256 ",
		func(f *fixture) { f.flip(packOfFixture) },
	},
	{
		"a pack that is missing",
		packOfFixture + ": missing; want ",
		func(f *fixture) { f.ok(os.Remove(filepath.Join(f.dir, packOfFixture))) },
	},
	{
		"a directory in place of a pack",
		packOfFixture + ": not a regular file",
		func(f *fixture) {
			f.ok(os.Remove(filepath.Join(f.dir, packOfFixture)))
			f.ok(os.Mkdir(filepath.Join(f.dir, packOfFixture), 0o755))
		},
	},
	{
		"a UKI with another byte",
		ukiOfFixture + ": 104000 bytes, SHA-256 ",
		func(f *fixture) { f.flip(ukiOfFixture) },
	},
	{
		"an index with another byte",
		"loam-node-os_1.0.0_x86-64.index.json: ",
		func(f *fixture) {
			names, err := fs.Glob(os.DirFS(f.dir), "targets/*_1.0.0_*.index.json")
			f.ok(err)
			f.flip(names[0])
		},
	},
	{
		"another digest in SHA256SUMS",
		"SHA256SUMS: SHA-256 missing for " + ukiOfFixture,
		func(f *fixture) {
			sums := string(f.read(sumsName))
			f.write(sumsName, []byte(strings.ReplaceAll(sums, "  "+ukiOfFixture, "  other.efi")))
		},
	},
}

// change changes a file, in a copy: it may be linked to the build.
func (f *fixture) change(name string, to func(content []byte) []byte) {
	f.Helper()
	content := to(f.read(name))
	f.ok(os.Remove(filepath.Join(f.dir, name)))
	f.write(name, content)
}

// flip changes a byte of a file.
func (f *fixture) flip(name string) {
	f.Helper()
	f.change(name, func(content []byte) []byte {
		content[len(content)/2] ^= 1
		return content
	})
}

func TestADamagedRepositoryIsNotSignedAgain(t *testing.T) {
	for _, row := range damages {
		t.Run(row.name, func(t *testing.T) {
			f := newFixture(t)
			f.publish("1.0.0")
			row.damage(f)
			before := string(f.read("metadata/timestamp.json"))

			_, publishErr := f.tryPublish(f.bundle("2.0.0"))
			for name, err := range map[string]error{
				"Refresh": f.refresh(f.keys, f.now),
				"Rotate":  Rotate(f.dir, f.keys, f.newKeys(1), 1, DefaultExpiries(), f.now),
				"Publish": publishErr,
			} {
				if err == nil || !strings.Contains(err.Error(), row.want) ||
					!strings.Contains(err.Error(), f.dir) {
					t.Errorf("%s: error %v, want %q", name, err, row.want)
				}
			}

			if after := string(f.read("metadata/timestamp.json")); after != before {
				t.Error("signed again")
			}
		})
	}
}

// TestDamageIsNamedAtOnce: one run reports all damage, with the actual and the
// expected value.
func TestDamageIsNamedAtOnce(t *testing.T) {
	f := newFixture(t)
	f.publish("1.0.0")
	files, err := Verify(t.Context(), f.dir, meter.None)
	f.ok(err)

	want := map[string]string{}
	for _, file := range files {
		want[file.Name] = file.SHA256
	}

	f.flip(packOfFixture)
	f.flip(ukiOfFixture)
	_, err = Verify(t.Context(), f.dir, meter.None)
	text := hint.Text(err)
	for _, part := range []string{
		packOfFixture + ": ", want[packOfFixture],
		ukiOfFixture + ": ", want[ukiOfFixture],
		"hint: `loamctl publish` of an intact copy repairs it",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("error %s, want %q", text, part)
		}
	}
}

// TestAPublicationThatWasCutOffIsDoneAgain: its files are there, and the
// metadata do not name them yet. Another build of the version may replace them.
func TestAPublicationThatWasCutOffIsDoneAgain(t *testing.T) {
	for name, cut := range map[string]func(f *fixture){
		"before the metadata":               func(*fixture) {},
		"as another build's took its place": func(f *fixture) { f.flip(ukiOfFixture) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			b := f.bundle("1.0.0")
			p, _, err := releasePublication(b)
			f.ok(err)
			f.ok(p.place(f.Context(), f.dir, meter.None))
			cut(f)

			f.ok(f.refresh(f.keys, f.now))
			_, err = f.tryPublish(b)
			f.ok(err)
			if _, err := Verify(t.Context(), f.dir, meter.None); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFilesThatOnlySHA256SUMSNamesAreVerified, and copied.
func TestFilesThatOnlySHA256SUMSNamesAreVerified(t *testing.T) {
	f := newFixture(t)
	f.publish("1.0.0")
	own := describe("own.raw", []byte("an operator's own"))
	f.write(own.Name, []byte("an operator's own"))
	f.write(sumsName, append(f.read(sumsName), own.SHA256+"  "+own.Name+"\n"...))

	files, err := Verify(t.Context(), f.dir, meter.None)
	if err != nil || !slices.Contains(files, own) {
		t.Errorf("files %v, %v", files, err)
	}

	f.flip(own.Name)
	_, err = Verify(t.Context(), f.dir, meter.None)
	if err == nil || !strings.Contains(err.Error(), own.Name+": 17 bytes, SHA-256 ") {
		t.Errorf("error %v", err)
	}
}

// TestVerifyReturnsTheFilesInTheOrderOfACopy, and not what nothing names.
func TestVerifyReturnsTheFilesInTheOrderOfACopy(t *testing.T) {
	f := newFixture(t)
	f.publish("1.0.0")
	f.ok(Rotate(f.dir, f.keys, f.newKeys(1), 1, DefaultExpiries(), f.now))
	f.write("notes.txt", []byte("of nobody"))

	files, err := Verify(t.Context(), f.dir, meter.None)
	f.ok(err)
	var names []string
	for _, file := range files {
		names = append(names, file.Name)
	}

	// 1.targets.json was Init's, 2. the release's.
	have := strings.Join(names[len(names)-6:], " ")
	const want = "metadata/3.targets.json metadata/3.snapshot.json SHA256SUMS " +
		"metadata/1.root.json metadata/2.root.json metadata/timestamp.json"
	if have != want || len(names) != 4+1+6 {
		t.Errorf("files %q, want at the end %q", names, want)
	}
}

func TestTheSameBuildAgainRepairsItsRelease(t *testing.T) {
	for _, row := range damages {
		t.Run(row.name, func(t *testing.T) {
			f := newFixture(t)
			b := f.bundle("1.0.0")
			_, err := f.tryPublish(b)
			f.ok(err)
			row.damage(f)
			if row.name == "a directory in place of a pack" {
				f.ok(os.Remove(filepath.Join(f.dir, packOfFixture)))
			}
			if strings.Contains(row.want, sumsName) {
				f.ok(os.Remove(filepath.Join(f.dir, sumsName)))
			}

			_, err = f.tryPublish(b)
			f.ok(err)
			if _, err := Verify(t.Context(), f.dir, meter.None); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestABuildThatChangedMeanwhileIsNotPublished(t *testing.T) {
	f := newFixture(t)
	b := f.bundle("1.0.0")
	f.ok(os.WriteFile(b.UKI, []byte("another"), 0o644))
	_, err := f.tryPublish(b)
	if err == nil || !strings.Contains(err.Error(), ukiOfFixture+": 7 bytes; ") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(f.dir, ukiOfFixture)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is in the repository: %v", err)
	}
}

// TestACopyThatDiffersNeverGetsTheName: the source changed after it was
// verified.
func TestACopyThatDiffersNeverGetsTheName(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	to := filepath.Join(dir, "to")
	file := describe("to", []byte("intact"))
	for path, content := range map[string]string{from: "in+act", to: "intact"} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	err := file.Copy(to, from, io.Discard)
	if err == nil || !strings.Contains(err.Error(), file.SHA256) {
		t.Errorf("error %v, want the digest %s", err, file.SHA256)
	}
	if !file.In(dir, io.Discard) {
		t.Error("the intact copy was overwritten")
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 2 {
		t.Errorf("files %v, %v", names, err)
	}
}

// TestALockThatCannotBeOpened is not a missing repository.
func TestALockThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	if _, err := Lock(dir); fault.Of(err) != fault.NotARepository {
		t.Errorf("an empty directory: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "metadata/.lock"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir); fault.Of(err) != fault.WrongFileType {
		t.Errorf("a directory for the lock: %v", err)
	}
}

// TestARootThatCannotBeRead is not a missing repository.
func TestARootThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	if _, err := Verify(t.Context(), dir, nil); fault.Of(err) != fault.NotARepository {
		t.Errorf("an empty directory: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, firstRoot), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(t.Context(), dir, nil); fault.Of(err) != fault.WrongFileType {
		t.Errorf("a directory for the root: %v", err)
	}
}
