package damage

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/ext4"
	"github.com/loam-os/loam/test/judge"
)

// Size is the size of a partition in bytes, as a node formats it.
const Size = 256 << 20

const blockSize = 4096

// Partition is an intact state partition.
type Partition struct {
	// Parts are its blocks that hold structures of the file system.
	Parts map[Part][]int64
	// Files are its files by path.
	Files map[string]File

	content ext4.Template
}

// Part is a kind of structure of a file system.
type Part string

// The parts.
const (
	Superblocks Part = "superblocks"
	Descriptors Part = "group descriptors"
	Bitmaps     Part = "bitmaps"
	Journal     Part = "journal"
	Inodes      Part = "inode tables"
	Directories Part = "directories"
)

// File is a file of a partition.
type File struct {
	// Digest is the SHA-256 of the content, the zero value of a directory.
	Digest [sha256.Size]byte
	// Inode is its number, and Parents the numbers of the directories above it.
	Inode   int64
	Parents []int64
}

// NewPartition makes a partition. If replay is true, its journal has a
// transaction that must be replayed. more are files beside those of each
// partition.
func NewPartition(t testing.TB, replay bool, more map[string]string) *Partition {
	t.Helper()
	dir := scratch(t)
	tree := filepath.Join(dir, "tree")
	populate(t, tree, more)

	image := filepath.Join(dir, "state")
	judge.Run(t, "mke2fs", "-q", "-t", "ext4", "-b", "4096", "-L", partitions.StateLabel, "-J",
		"size=4", "-O", "metadata_csum,metadata_csum_seed,64bit,quota,project", "-N", "8192", "-d",
		tree, image, fmt.Sprintf("%dK", Size>>10))
	// mke2fs does not count the files of -d in the quotas: e2fsck does, and says 1.
	_, _ = judge.Try(t, "e2fsck", "-f", "-y", image)
	judge.Run(t, "e2fsck", "-f", "-n", image)

	p := &Partition{}
	p.Parts = parts(t, image)
	p.Files = Files(t, image)
	if f := p.Files["/lib/kubelet/pods/a-pod-with-a-long-name-299"]; len(f.Parents) != 4 ||
		f.Digest != sha256.Sum256([]byte("pod 299")) {
		t.Fatalf("debugfs lists %d files: %+v", len(p.Files), f)
	}
	if replay {
		addTransaction(t, image)
	}

	f, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	p.content, err = ext4.FromImage(f, Size)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Write writes the partition, of Size bytes, to where zeros are.
func (p *Partition) Write(w io.WriterAt) error {
	for _, e := range p.content.Extents {
		if _, err := w.WriteAt(e.Data, e.Offset); err != nil {
			return err
		}
	}
	return nil
}

// WriteFile writes the partition to a new file.
func (p *Partition) WriteFile(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(Size), p.Write(f), f.Close())
}

// populate makes a tree like that of a node.
func populate(t testing.TB, tree string, more map[string]string) {
	t.Helper()
	write := func(name, text string) {
		file := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	for name, text := range more {
		write(name, text)
	}
	write("lib/loam/machine-id", strings.Repeat("0123456789abcdef", 2)+"\n")
	for i := range 40 {
		write(fmt.Sprintf("lib/loam/store/%02d/content", i), strings.Repeat(fmt.Sprint(i), 100*i))
	}
	for i := range 300 { // a directory of several blocks
		write(fmt.Sprintf("lib/kubelet/pods/a-pod-with-a-long-name-%03d", i), fmt.Sprint("pod ", i))
	}
	for i := range 20 {
		write(fmt.Sprintf("log/%02d.log", i), strings.Repeat("line\n", 2000))
	}
}

// addTransaction adds a transaction that writes a block of its own.
func addTransaction(t testing.TB, image string) {
	t.Helper()
	block := filepath.Join(filepath.Dir(image), "block")
	if err := os.WriteFile(block, make([]byte, blockSize), 0o644); err != nil {
		t.Fatal(err)
	}

	commands := filepath.Join(filepath.Dir(image), "commands")
	text := fmt.Sprintf("journal_open -c\njournal_write -b 60000 %s\njournal_close\n", block)
	if err := os.WriteFile(commands, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	judge.Run(t, "debugfs", "-w", "-f", commands, image)
}

var (
	inGroup = regexp.MustCompile(`(superblock|Group descriptors|[Bb]lock bitmap|Inode bitmap|` +
		`Inode table) at (\d+)(?:-(\d+))?`)
	kinds = map[string]Part{
		"superblock":        Superblocks,
		"Group descriptors": Descriptors,
		"Block bitmap":      Bitmaps,
		"block bitmap":      Bitmaps,
		"Inode bitmap":      Bitmaps,
		"Inode table":       Inodes,
	}
)

// parts reads where the parts of a file system are.
func parts(t testing.TB, image string) map[Part][]int64 {
	t.Helper()
	all := map[Part][]int64{}
	for _, found := range inGroup.FindAllStringSubmatch(judge.Run(t, "dumpe2fs", image), -1) {
		from := number(t, found[2])
		to := from
		if found[3] != "" {
			to = number(t, found[3])
		}
		kind := kinds[found[1]]
		if kind == Inodes { // Of what is left nothing is used.
			to = min(to, from+31)
		}
		for b := from; b <= to; b++ {
			all[kind] = append(all[kind], b)
		}
	}

	all[Journal] = blocks(t, image, "<8>")[:64]
	for _, dir := range []string{
		"/", "/lib", "/lib/loam", "/lib/loam/store", "/lib/loam/store/05", "/lib/kubelet/pods", "/log",
	} {
		all[Directories] = append(all[Directories], blocks(t, image, dir)...)
	}
	return all
}

// blocks returns the blocks of a file.
func blocks(t testing.TB, image, file string) (all []int64) {
	t.Helper()
	for text := range strings.FieldsSeq(debugfs(t, image, "blocks "+file)) {
		all = append(all, number(t, text))
	}
	return all
}

// debugfs returns what a command of debugfs prints, without debugfs's version.
func debugfs(t testing.TB, image, command string) string {
	t.Helper()
	out := judge.Run(t, "debugfs", "-R", command, image)
	_, out, _ = strings.Cut(out, "\n")
	return out
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Files reads all files of a partition. A damaged inode may have any size: what is
// too large has no digest.
func Files(t testing.TB, image string) map[string]File {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(image), "files")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)

	all := map[string]File{}
	var dumps []string
	parents := map[string][]int64{"/": {rootInode}}
	for level := []string{"/"}; len(level) > 0 && len(dumps) < maxFiles; {
		var below []string
		for _, e := range list(t, image, level) {
			path := filepath.Join(e.dir, e.name)
			if _, seen := all[path]; seen || e.name == "." || e.name == ".." {
				continue
			}

			all[path] = File{Inode: e.inode, Parents: parents[e.dir]}
			switch {
			case e.isDir:
				below = append(below, path)
				parents[path] = append([]int64{e.inode}, parents[e.dir]...)
			case e.size <= maxSize:
				dumps = append(dumps, path)
			}
		}
		level = below
	}

	dump(t, image, dir, dumps)
	for i, path := range dumps {
		f := all[path]
		text, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)))
		if err == nil {
			f.Digest = sha256.Sum256(text)
		}
		all[path] = f
	}
	return all
}

const (
	rootInode = 2
	// maxSize is more than any intact file has, in bytes, and maxFiles more than
	// an intact partition has.
	maxSize  = 1 << 20
	maxFiles = 10000
)

// entry is what debugfs lists.
type entry struct {
	dir, name   string
	inode, size int64
	isDir       bool
}

var (
	prompt = regexp.MustCompile(`^debugfs: ls -p (.*)$`)
	listed = regexp.MustCompile(`^/(\d+)/(\d\d)\d+/\d+/\d+/([^/]+)/(\d*)/$`)
)

// list lists directories.
func list(t testing.TB, image string, dirs []string) (all []entry) {
	t.Helper()
	var commands strings.Builder
	for _, dir := range dirs {
		fmt.Fprintf(&commands, "ls -p %s\n", dir)
	}

	dir := ""
	for line := range strings.Lines(script(t, image, commands.String())) {
		line = strings.TrimSuffix(line, "\n")
		if found := prompt.FindStringSubmatch(line); found != nil {
			dir = found[1]
		}
		if e := listed.FindStringSubmatch(line); e != nil {
			size, _ := strconv.ParseInt(e[4], 10, 64) // A directory has none.
			all = append(all, entry{
				dir:   dir,
				name:  e[3],
				inode: number(t, e[1]),
				size:  size,
				isDir: e[2] == "04",
			})
		}
	}
	return all
}

// dump writes files into a directory, each under its number.
func dump(t testing.TB, image, dir string, paths []string) {
	t.Helper()
	var commands strings.Builder
	for i, path := range paths {
		fmt.Fprintf(&commands, "dump %s %s/%d\n", path, dir, i)
	}
	script(t, image, commands.String())
}

// script has debugfs run commands.
func script(t testing.TB, image, commands string) string {
	t.Helper()
	file := image + ".commands"
	defer os.Remove(file)
	if err := os.WriteFile(file, []byte(commands), 0o644); err != nil {
		t.Fatal(err)
	}
	return judge.Run(t, "debugfs", "-f", file, image)
}
