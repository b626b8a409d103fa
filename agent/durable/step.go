package durable

// Op is a kind of change, or of sync.
type Op string

const (
	Create    Op = "create"     // an empty file
	Write     Op = "write"      // bytes and mode of a file that was just created
	Append    Op = "append"     // bytes at the end of a file
	SyncFile  Op = "sync"       // fsync(2) of a file
	SyncDir   Op = "sync dir"   // fsync(2) of a directory: its entries are durable
	SyncAll   Op = "sync all"   // syncfs(2)
	Rename    Op = "rename"     // From to Name
	Link      Op = "link"       // hard link Name to From
	Symlink   Op = "symlink"    // Name, which points to From
	Mkdir     Op = "mkdir"      // mode 0755
	Remove    Op = "remove"     // a file, a link or an empty directory
	RemoveAll Op = "remove all" // and everything below it
)

// Step is one change: a system call, or a few that belong together.
type Step struct {
	Op   Op
	Name string
	// From is the second name of changes that have two.
	From string
}

func (s Step) String() string {
	if s.From == "" {
		return string(s.Op) + " " + s.Name
	}
	return string(s.Op) + " " + s.Name + " from " + s.From
}

// Hook is called before each step. An error from it ends the operation and all
// later ones, and leaves everything as it is, like a power cut.
type Hook func(Step) error

// Fault is an error of a hook for a single step, as from a full disk.
type Fault struct{ Err error }

func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns the error of the system call.
func (f *Fault) Unwrap() error { return f.Err }
