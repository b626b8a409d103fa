package power_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/power"
)

func open(t *testing.T) *os.Root {
	t.Helper()
	root := files.Root(t)
	return root
}

// record does something to a tree that has the file a, which says old, and the
// directory d.
func record(
	t *testing.T, do func(root *os.Root, hook durable.Hook) error,
) (power.Recording, *os.Root) {
	t.Helper()
	root := open(t)
	err := errors.Join(root.WriteFile("a", []byte("old"), 0o644), root.Mkdir("d", 0o755))
	if err != nil {
		t.Fatal(err)
	}

	base, err := power.Read(root)
	if err != nil {
		t.Fatal(err)
	}

	recorder := power.NewRecorder(root, base)
	if err := do(root, recorder.Hook("")); err != nil {
		t.Fatal(err)
	}

	recording, err := recorder.Recording()
	if err != nil {
		t.Fatal(err)
	}

	return recording, root
}

// contents are what a file says on the disks that cuts with a loss leave, in
// order, each once; "-" where it is not there.
func contents(t *testing.T, r power.Recording, name string, l power.Loss) string {
	t.Helper()
	var all []string
	r.Replay(func(_ int, d *power.Disk) bool {
		dir := t.TempDir()
		if err := d.Cut(l).Write(dir); err != nil {
			t.Fatal(err)
		}

		text, err := os.ReadFile(dir + "/" + name)
		if err != nil {
			text = []byte("-")
		}
		if got := fmt.Sprintf("%q", text); len(all) == 0 || all[len(all)-1] != got {
			all = append(all, got)
		}

		return true
	})

	return strings.Join(all, " ")
}

func TestCutsLeaveOldOrNewContent(t *testing.T) {
	strict := func(content power.Part) power.Loss {
		return power.Loss{Entries: power.None, Content: content}
	}

	late := func(content power.Part) power.Loss {
		return power.Loss{Entries: power.All, Content: content}
	}

	write := func(root *os.Root, hook durable.Hook) error {
		_, err := durable.New(root, hook).WriteFile("a", []byte("newer"), 0o644)
		return err
	}

	careless := func(root *os.Root, hook durable.Hook) error {
		return durable.New(root, hook).WriteVolatile("a", []byte("newer"), 0o644)
	}

	line := func(root *os.Root, hook durable.Hook) error {
		return durable.New(root, hook).Append("a", []byte("1234"), 0o644)
	}

	fresh := func(root *os.Root, hook durable.Hook) error {
		dir := durable.New(root, hook)
		b := dir.Batch()
		return errors.Join(b.Mkdir("d/e"), b.File("d/e/a", strings.NewReader("x"), 0o600), b.Sync())
	}

	tests := []struct {
		name string
		do   func(*os.Root, durable.Hook) error
		file string
		loss power.Loss
		want string
	}{
		{"a durable write, as programs see it", write, "a", late(power.All), `"old" "newer"`},
		{"a durable write is old or new", write, "a", strict(power.None), `"old" "newer"`},
		{
			"a durable write is whole even if entries come early",
			write,
			"a",
			late(power.Zeros),
			`"old" "newer"`,
		},
		{"a rename that was not synced is lost", careless, "a", strict(power.None), `"old"`},
		{
			"a file that was renamed and not synced is empty",
			careless,
			"a",
			late(power.None),
			`"old" ""`,
		},
		{"or half", careless, "a", late(power.Half), `"old" "ne"`},
		{"or zeros", careless, "a", late(power.Zeros), `"old" "\x00\x00\x00\x00\x00"`},
		{"a line is torn", line, "a", late(power.Half), `"old" "old\n12" "old\n1234\n"`},
		{"a file is there when its directory is", fresh, "d/e/a", strict(power.None), `"-" "x"`},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, _ := record(t, tt.do)
			if diff := cmp.Diff(tt.want, contents(t, r, tt.file, tt.loss)); diff != "" {
				t.Errorf("contents (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRecordsAllThatDurableDoes: Recording itself compares the tree with the
// record, here of every operation, including failed ones.
func TestRecordsAllThatDurableDoes(t *testing.T) {
	r, root := record(t, func(root *os.Root, hook durable.Hook) error {
		image := fstest.MapFS{"d/to": {Data: []byte("x"), Mode: fs.ModeSymlink}}
		dir := durable.New(root, hook).WithImage(image)
		b := dir.Batch()
		err := errors.Join(dir.MkdirAll("d/x/y"), b.File("d/x/f", strings.NewReader("f"), 0o755),
			b.Link("d/x/f", "d/x/y/g"), b.Symlink("x", "d/to"), b.Sync(), dir.Append("log",
				[]byte("1"), 0o600),
			dir.Append("log", []byte("2"), 0o600), dir.WriteVolatile("d/to/v", []byte("v"), 0o644),
			dir.Remove("a"), dir.Remove("a"), dir.RemoveAll("d/x/y"))

		if dir.Remove("d") == nil {
			err = errors.Join(err, errors.New("a full directory was removed"))
		}
		if _, bad := dir.WriteFile("d", nil, 0o644); bad == nil {
			err = errors.Join(err, errors.New("a directory was replaced"))
		}

		return err
	})

	for seed := range uint64(200) {
		dir := t.TempDir()
		r.Replay(func(k int, d *power.Disk) bool {
			if k != int(seed)%len(r.Ops) {
				return true
			}
			err := d.Cut(power.Loss{
				Entries: power.Random,
				Content: power.Random,
				Seed:    seed,
			}).Write(dir)
			if err != nil {
				t.Fatal(err)
			}
			return false
		})
	}

	if text, err := root.ReadFile("d/x/v"); err != nil || string(text) != "v" {
		t.Errorf("through a link: %q %v", text, err)
	}
}

func TestLostDirectoriesAreEmpty(t *testing.T) {
	r, _ := record(t, func(*os.Root, durable.Hook) error { return nil })
	left := r.Base.Cut(power.Loss{}, "d", "run").String()
	if strings.Count(left, "\n") != 4 || !strings.Contains(left, "./run 3 drwxr-xr-x") {
		t.Errorf("left is\n%s", left)
	}
}
