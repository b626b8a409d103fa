package room

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// databaseRoom is what the database has beyond its data, and segmentRoom what each
	// segment of the log has beyond its end. A request has at most 1.5 MiB.
	databaseRoom = 128 << 20
	segmentRoom  = 4 << 20

	// minFree is what must be free after a reservation: an etcd that takes the last room
	// would be the one that has filled the disk.
	minFree = 1 << 30
)

// database is the database of etcd below its data directory, and log the directory of its
// log (etcd/server/storage/datadir).
const (
	database = "member/snap/db"
	log      = "member/wal"
)

// File is a file of etcd, with its sizes in bytes.
type File struct {
	// Name is its name below the data directory of etcd.
	Name string
	// Size is its length, and Allocated what it has on the disk: less if it has holes,
	// more if room is reserved.
	Size, Allocated int64
}

// Usage is what etcd has on the disk, and what of the file system is free.
type Usage struct {
	Files []File
	Free  int64
}

// Reservation is a file that gets blocks up to that length.
type Reservation struct {
	Name   string
	Length int64
	// bytes is what it takes of what is free.
	bytes int64
}

// wanted returns up to which length a file has blocks.
func (f File) wanted() int64 {
	if f.Name == database {
		return f.Size + databaseRoom
	}
	return f.Size + segmentRoom
}

// lacks reports whether a file needs a reservation. One that is larger by less than half of
// its room lacks nothing, as a database that grows would else get blocks all the time.
func (f File) lacks() bool { return f.Allocated < f.wanted()-(f.wanted()-f.Size)/2 }

// Next returns what is to be reserved, and whether all of etcd has its room then: a file
// system with little room has none to reserve. It is pure.
func Next(u Usage) (reserve []Reservation, all bool) {
	all = true
	free := u.Free
	for _, f := range u.Files {
		if !f.lacks() {
			continue
		}
		r := Reservation{f.Name, f.wanted(), f.wanted() - f.Allocated}
		if free-r.bytes < minFree {
			all = false
			continue
		}
		free -= r.bytes
		reserve = append(reserve, r)
	}
	return reserve, all
}

// Reserved returns how many bytes on the disk only etcd can use.
func (u Usage) Reserved() int64 {
	var sum int64
	for _, f := range u.Files {
		sum += max(0, f.Allocated-f.Size)
	}
	return sum
}

// Of returns how many bytes on the disk only the etcd with its data in dir can use, 0 if
// that is not known.
func Of(dir string) int64 {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0
	}
	defer root.Close()
	u, err := Observe(root)
	if err != nil {
		return 0
	}
	return u.Reserved()
}

// Keep reserves what etcd with its data in dir lacks, and reports whether it has all of
// its room. The error is [fs.ErrNotExist] if etcd has no data yet.
func Keep(dir string) (made []Reservation, all bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, false, err
	}
	defer root.Close()

	usage, err := Observe(root)
	if err != nil {
		return nil, false, err
	}
	made, all = Next(usage)
	for i, r := range made {
		if err := apply(root, r); err != nil {
			return made[:i], false, err
		}
	}
	return made, all, nil
}

// Observe returns what etcd with its data in root has on the disk.
func Observe(root *os.Root) (Usage, error) {
	names, err := logFiles(root)
	if err != nil {
		return Usage{}, err
	}

	var u Usage
	for _, name := range append(names, database) {
		info, err := root.Lstat(name)
		if err != nil {
			return Usage{}, err
		}
		if !info.Mode().IsRegular() {
			return Usage{}, fmt.Errorf("%s of etcd is %s", name, info.Mode())
		}
		// stat(2) counts in units of 512 bytes.
		allocated := info.Sys().(*syscall.Stat_t).Blocks * 512
		u.Files = append(u.Files, File{name, info.Size(), allocated})
	}

	dir, err := root.Open(".")
	if err != nil {
		return Usage{}, err
	}
	defer dir.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil {
		return Usage{}, fmt.Errorf("look for room: %w", err)
	}
	u.Free = int64(st.Bavail) * st.Bsize
	return u, nil
}

// logFiles returns the last segment of the log, which is the one that is written, and
// those that come next, which have no number yet.
func logFiles(root *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), log) // in the order of their names
	if err != nil {
		return nil, err
	}

	var last string
	var names []string
	for _, e := range entries {
		switch path.Ext(e.Name()) {
		case ".wal":
			last = path.Join(log, e.Name())
		case ".tmp":
			names = append(names, path.Join(log, e.Name()))
		}
	}
	if last != "" {
		names = append([]string{last}, names...)
	}
	return names, nil
}

// apply reserves blocks of a file, whose content and size stay. The file is of etcd's
// user, so no link is followed.
func apply(root *os.Root, r Reservation) error {
	f, err := root.OpenFile(r.Name, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("reserve room for etcd: %w", err)
	}
	err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, r.Length)
	if err != nil {
		err = fmt.Errorf("reserve room for etcd in %s: %w", r.Name, err)
	}
	return errors.Join(err, f.Close())
}
