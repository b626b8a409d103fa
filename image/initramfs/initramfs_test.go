package initramfs

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/loam-os/loam/test/judge"
)

func sample() []Entry {
	return []Entry{
		{Path: "init", Mode: 0o755, Data: []byte("#!/loam\n")},
		{Path: "usr/lib/modules/a.ko", Mode: 0o644, Data: bytes.Repeat([]byte{1, 2, 3}, 7)},
		{
			Path:  "dev/console",
			Mode:  fs.ModeDevice | fs.ModeCharDevice | 0o600,
			Major: 5,
			Minor: 1,
		},
		{Path: "lib", Mode: fs.ModeSymlink | 0o777, Target: "usr/lib"},
		{Path: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{Path: "usr-empty", Mode: 0o400},
	}
}

func archived(t *testing.T, entries []Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, entries); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWriteIsTheSameForAnyOrder(t *testing.T) {
	a := archived(t, sample())
	reversed := sample()
	slices.Reverse(reversed)
	if !bytes.Equal(a, archived(t, reversed)) {
		t.Error("another order of entries gives other bytes")
	}
}

func TestWriteRefuses(t *testing.T) {
	for _, tc := range []struct {
		name    string
		entries []Entry
		err     string
	}{
		{"absolute path", []Entry{{Path: "/init"}}, "clean relative path"},
		{"path with ..", []Entry{{Path: "a/../b"}}, "clean relative path"},
		{"the root", []Entry{{Path: "."}}, "clean relative path"},
		{"the trailer's name", []Entry{{Path: "TRAILER!!!"}}, "clean relative path"},
		{"path twice", []Entry{{Path: "a"}, {Path: "a"}}, "given twice"},
		{"file below a file", []Entry{{Path: "a"}, {Path: "a/b"}}, "a is no directory"},
		{
			"file below a symlink",
			[]Entry{{Path: "a", Mode: fs.ModeSymlink, Target: "b"}, {Path: "a/b"}},
			"a is no directory",
		},
		{
			"symlink without target",
			[]Entry{{Path: "a", Mode: fs.ModeSymlink}},
			"a symlink has a target",
		},
		{"file with a target", []Entry{{Path: "a", Target: "b"}}, "nothing else has a target"},
		{
			"directory with data",
			[]Entry{{Path: "a", Mode: fs.ModeDir, Data: []byte("x")}},
			"has data",
		},
		{"socket", []Entry{{Path: "a", Mode: fs.ModeSocket}}, "want a file, directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := Write(&bytes.Buffer{}, tc.entries); err == nil ||
				!strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

// TestCpio lets cpio list and extract the archive.
func TestCpio(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cpio")
	if err := os.WriteFile(path, archived(t, sample()), 0o600); err != nil {
		t.Fatal(err)
	}

	list := judge.Run(t, "cpio", "-itv", "--numeric-uid-gid", "--quiet", "-F", path)
	var got []string
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		name := f[8:]
		if f[0][0] == 'c' {
			name = append([]string{f[4] + f[5]}, f[9:]...)
		}
		got = append(got, f[0]+" "+f[1]+" "+f[2]+" "+f[3]+" "+strings.Join(name, " "))
	}

	want := []string{
		"drwxr-xr-x 2 0 0 dev",
		"crw------- 1 0 0 5,1 dev/console",
		"-rwxr-xr-x 1 0 0 init",
		"lrwxrwxrwx 1 0 0 lib -> usr/lib",
		"drwxrwxrwt 2 0 0 tmp",
		"drwxr-xr-x 2 0 0 usr",
		"-r-------- 1 0 0 usr-empty",
		"drwxr-xr-x 2 0 0 usr/lib",
		"drwxr-xr-x 2 0 0 usr/lib/modules",
		"-rw-r--r-- 1 0 0 usr/lib/modules/a.ko",
	}

	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	data := judge.Run(t, "cpio", "-i", "--to-stdout", "--quiet", "-F", path, "init")
	if data != "#!/loam\n" {
		t.Errorf("init extracts as %q", data)
	}
}

func TestCompress(t *testing.T) {
	noise := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	in := slices.Concat(archived(t, sample()), bytes.Repeat([]byte("loam"), 1<<20), noise)
	a, err := Compress(in)
	if err != nil {
		t.Fatal(err)
	}

	if b, err := Compress(in); err != nil || !bytes.Equal(a, b) {
		t.Errorf("not the same twice (error %v)", err)
	}

	dec, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()

	if got, err := dec.DecodeAll(a, nil); err != nil || !bytes.Equal(got, in) {
		t.Errorf("does not decompress to what it was (error %v)", err)
	}

	path := filepath.Join(t.TempDir(), "zst")
	if err := os.WriteFile(path, a, 0o600); err != nil {
		t.Fatal(err)
	}

	judge.Run(t, "zstd", "--test", "--memory=1MB", path)
}
