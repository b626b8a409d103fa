package firmware

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/test/judge"
)

// exitPort is where a program ends the machine.
const exitPort = 0x501

// machine has OVMF, which remembers its variables, and a disk.
type machine struct {
	t     testing.TB
	dir   string
	tools tools.Tree
	disk  Sectors
	bytes int64
	// fixed keeps the firmware from writing its variables.
	fixed bool
}

func newMachine(t testing.TB, disk Sectors, bytes int64) *machine {
	t.Helper()
	tree := tools.Tree{Dir: judge.Dir(t, "LOAM_TOOLS_TREE")}

	// t.TempDir has the commas of the test's name, which QEMU reads as its own
	dir, err := os.MkdirTemp("", "firmware")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &machine{
		t:     t,
		dir:   dir,
		tools: tree,
		disk:  disk,
		bytes: bytes,
	}

	m.variables(filepath.Join(tree.Dir, "usr/share/OVMF/OVMF_VARS_4M.fd"))
	return m
}

// variables gives the firmware the variables in a file.
func (m *machine) variables(file string) {
	m.t.Helper()
	vars, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(m.file("vars"), vars, 0o600)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) file(name string) string { return filepath.Join(m.dir, name) }

// start lets the machine run until a program ends it. It returns the program's
// code and what the machine asked of its disk, and changes the disk as it did.
func (m *machine) start() (code byte, all []Request) {
	m.t.Helper()
	m.write()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()

	out, err := m.tools.Command(ctx, []string{m.dir}, "qemu-system-x86_64",
		m.arguments()...).CombinedOutput()
	exit, is := errors.AsType[*exec.ExitError](err)
	if !is || exit.ExitCode() < 3 || exit.ExitCode()&1 == 0 { // It is the code twice and one.
		console, _ := os.ReadFile(m.file("console"))
		m.t.Fatalf("the machine ends with %v\n%s\n%s", err, out, console)
	}

	b, err := os.ReadFile(m.file("log"))
	if err == nil {
		all, err = ReadLog(b)
	}

	r := NewRecorder(m.disk)
	if err == nil {
		err = play(r, all)
	}

	if err != nil {
		m.t.Fatal(err)
	}

	m.disk = r.Flat()
	return byte(exit.ExitCode() >> 1), all
}

// write makes the files of disk and log.
func (m *machine) write() {
	m.t.Helper()
	f, err := os.Create(m.file("disk"))
	if err != nil {
		m.t.Fatal(err)
	}

	err = f.Truncate(m.bytes)
	for n, b := range m.disk {
		_, e := f.WriteAt(b, n*SectorSize)
		err = errors.Join(err, e)
	}

	err = errors.Join(err, f.Close(), os.WriteFile(m.file("log"), nil, 0o600),
		os.WriteFile(m.file("console"), nil, 0o600))
	if err != nil {
		m.t.Fatal(err)
	}
}

// arguments of QEMU: emulated, so that all machines do the same, and on a day
// that the model knows.
func (m *machine) arguments() []string {
	return []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35,smm=off,vmport=off",
		"-accel", "tcg", "-cpu", "max,la57=off",
		"-m", "256", "-rtc", "base=2026-01-01T12:00:00", "-serial", "file:" + m.file("console"),
		"-device", fmt.Sprintf("isa-debug-exit,iobase=%#x,iosize=1", exitPort),
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd",
		"-drive", "if=pflash,format=raw,unit=1,readonly=" +
			map[bool]string{true: "on", false: "off"}[m.fixed] + ",file=" + m.file("vars"),
		"-blockdev", "driver=file,node-name=f,filename=" + m.file("disk"), "-blockdev",
		"driver=raw,node-name=r,file=f",
		"-blockdev", "driver=file,node-name=l,filename=" + m.file("log"),
		"-blockdev", fmt.Sprintf("driver=blklogwrites,node-name=lw,file=r,log=l,log-sector-size=%d",
			SectorSize),
		"-device", "virtio-blk-pci,drive=lw,bootindex=1",
	}
}
