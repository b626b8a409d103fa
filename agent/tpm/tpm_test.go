package tpm

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/test/judge"
)

// chip is a TPM by swtpm with its state in a directory.
type chip struct {
	testing.TB
	dir  string
	conn net.Conn
	cmd  *exec.Cmd
}

func newChip(t testing.TB) *chip {
	c := &chip{TB: t, dir: t.TempDir()}
	c.start()
	t.Cleanup(c.stop)
	return c
}

// start powers it up.
func (c *chip) start() {
	c.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		c.Fatal(err)
	}

	ours := os.NewFile(uintptr(pair[0]), "tpm")
	theirs := os.NewFile(uintptr(pair[1]), "swtpm")
	defer theirs.Close()

	defer ours.Close()
	c.conn, err = net.FileConn(ours)
	if err != nil {
		c.Fatal(err)
	}

	c.cmd = exec.Command(judge.Find(c, "swtpm"), "socket", "--tpm2", "--tpmstate", "dir="+c.dir,
		"--flags", "not-need-init,startup-clear", "--fd", "3")
	c.cmd.ExtraFiles = []*os.File{theirs}
	c.cmd.Stderr = os.Stderr
	if err := c.cmd.Start(); err != nil {
		c.Fatal(err)
	}
}

// stop powers it down.
func (c *chip) stop() {
	c.conn.Close()
	_ = c.cmd.Wait() // It reports the lost connection.
}

// number returns its Number.
func (c *chip) number() Number {
	return Number{func() (io.ReadWriteCloser, error) { return open{c.conn}, nil }}
}

// open ignores Close.
type open struct{ io.ReadWriter }

func (open) Close() error { return nil }

// run sends it another command.
func (c *chip) run(command uint32, handle uint32, parameters []byte) {
	c.Helper()
	if _, err := (tpm{c.conn}).run(command, []uint32{handle}, password, parameters); err != nil {
		c.Fatal(err)
	}
}

func (c *chip) has(want int) {
	c.Helper()
	if got, err := c.number().Read(); err != nil || got != want {
		c.Errorf("%d, %v, want %d", got, err, want)
	}
}

func (c *chip) raise(to int) {
	c.Helper()
	if err := c.number().Raise(to); err != nil {
		c.Error(err)
	}
}

func TestANumberOnlyRises(t *testing.T) {
	c := newChip(t)
	c.has(0)
	c.raise(0)

	for _, step := range []struct{ to, want int }{
		{1, 1},
		{1, 1},
		{7, 7},
		{3, 7},
		{63, 63},
		{64, 64},
		{1000, 64},
	} {
		c.raise(step.to)
		c.has(step.want)
		c.stop()
		c.start()
		c.has(step.want)
	}
}

// The commands with which other programs change a TPM, and the handle that
// authorizes them (TPM_RH_LOCKOUT).
const (
	clearTPM, hierarchyChangeAuth = 0x126, 0x129
	nvDefineSpace                 = 0x12a
	owner, lockout                = 0x4000_0001, 0x4000_000a
)

func TestAClearedTPMBeginsAgain(t *testing.T) {
	c := newChip(t)
	c.raise(5)
	c.run(clearTPM, lockout, nil)
	c.has(0)
	c.raise(2)
	c.has(2)
}

// TestATPMWithAnOwner: an existing index keeps working, and a new one is not
// made.
func TestATPMWithAnOwner(t *testing.T) {
	secret := bytesOf(uint16(3), []byte("abc"))
	c := newChip(t)
	c.raise(5)
	c.run(hierarchyChangeAuth, owner, secret)
	c.raise(6)
	c.has(6)

	c = newChip(t)
	c.run(hierarchyChangeAuth, owner, secret)

	if err := c.number().Raise(5); err == nil {
		t.Error("an index is made")
	}

	c.has(0)
}

// TestAnIndexThatWasBegun: the power was lost after the index was made and
// before its first bit was set.
func TestAnIndexThatWasBegun(t *testing.T) {
	c := newChip(t)
	c.run(nvDefineSpace, owner, append(bytesOf(uint16(0)), lockedIndex()...))
	c.has(0)
	c.raise(3)
	c.has(3)
}

// TestAnIndexWithoutAPolicyIsReplaced: root on a running system may have set all
// of its bits.
func TestAnIndexWithoutAPolicyIsReplaced(t *testing.T) {
	c := newChip(t)
	c.define(openAttributes, 8)
	c.setBits(^uint64(0))
	c.has(0)
	c.raise(2)
	c.has(2)
}

// setBits sets bits of the index with an empty password.
func (c *chip) setBits(bits uint64) {
	c.Helper()
	_, err := (tpm{c.conn}).run(nvSetBits, []uint32{index, index}, password, bytesOf(bits))
	if err != nil {
		c.Error(err)
	}
}

// TestALockedTPMIsNotRaised: neither by our code, nor by another program without
// the policy.
func TestALockedTPMIsNotRaised(t *testing.T) {
	c := newChip(t)
	c.raise(3)
	_, err := (tpm{c.conn}).run(nvSetBits, []uint32{index, index}, password, bytesOf(^uint64(0)))
	if err == nil {
		t.Error("a password is enough to raise it")
	}

	sealer := Sealer{Open: c.number().Open}
	if err := sealer.Lock(); err != nil {
		t.Fatal(err)
	}
	if err := c.number().Raise(4); !errors.Is(err, ErrLocked) {
		t.Errorf("error %v", err)
	}
	c.has(3)

	c.stop()
	c.start()
	c.raise(4)
	c.has(4)
}

func TestAnIndexOfSomebodyElse(t *testing.T) {
	c := newChip(t)
	c.define(1<<2|1<<18, 8)
	if _, err := c.number().Read(); !errors.Is(err, ErrTaken) {
		t.Errorf("error %v", err)
	}
	if err := c.number().Raise(1); !errors.Is(err, ErrTaken) {
		t.Errorf("error %v", err)
	}
}

func (c *chip) define(attributes uint32, size uint16) {
	c.Helper()
	c.run(nvDefineSpace, owner,
		bytesOf(uint16(0), uint16(14), uint32(index), uint16(0x0b), attributes, uint16(0), size))
}

// response is a TPM that gives one response, or an error instead.
type response struct{ answer []byte }

func (s response) Write(p []byte) (int, error) { return len(p), nil }
func (s response) Close() error                { return nil }
func (s response) Read(p []byte) (int, error) {
	if s.answer == nil {
		return 0, os.ErrDeadlineExceeded
	}
	return copy(p, s.answer), nil
}

func TestATPMThatIsBroken(t *testing.T) {
	for name, open := range map[string]func() (io.ReadWriteCloser, error){
		"is not there": func() (io.ReadWriteCloser, error) {
			return os.OpenFile("/dev/nowhere/tpmrm0", os.O_RDWR, 0)
		},
		"says nothing": func() (io.ReadWriteCloser, error) { return response{}, nil },
		"has failed": func() (io.ReadWriteCloser, error) {
			return response{bytesOf(uint16(0x8001), uint32(10), uint32(0x101))}, nil
		},
		"says too little": func() (io.ReadWriteCloser, error) {
			return response{[]byte("short")}, nil
		},
		"says less than it has": func() (io.ReadWriteCloser, error) {
			return response{bytesOf(uint16(0x8001), uint32(99), uint32(0))}, nil
		},
		"says nothing of it": func() (io.ReadWriteCloser, error) {
			return response{bytesOf(uint16(0x8001), uint32(10), uint32(0))}, nil
		},
	} {
		n := Number{open}
		_, err := n.Read()
		if err == nil || errors.Is(err, fs.ErrNotExist) != (name == "is not there") {
			t.Errorf("a TPM that %s is read: %v", name, err)
		}
		if err := n.Raise(1); err == nil {
			t.Errorf("a TPM that %s is raised", name)
		}
	}
}
