package plane

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/test/judge"
)

// A program of Go reads the clock by a function that the kernel maps into each
// process (vdso(7)). startAt replaces that function in a new process before its
// first instruction, so that its clock alone is ahead. A tool such as faketime
// cannot do it, because the programs are static.

// clockStub returns the function for amd64: the system call clock_gettime,
// and for CLOCK_REALTIME the offset added to its seconds.
func clockStub(offset time.Duration) []byte {
	seconds := binary.LittleEndian.AppendUint32(nil, uint32(offset/time.Second))
	return bytes.Join([][]byte{
		{0xb8, unix.SYS_CLOCK_GETTIME, 0, 0, 0}, // mov eax, clock_gettime
		{0x0f, 0x05},                            // syscall
		{0x85, 0xff},                            // test edi, edi: CLOCK_REALTIME is 0
		{0x75, 0x07},                            // jne to ret
		{0x48, 0x81, 0x06}, seconds,             // add qword [rsi], seconds
		{0xc3}, // ret
	}, nil)
}

// startAt starts a command whose clock is ahead by offset. It must be called on
// a thread that outlives the command.
func startAt(cmd *exec.Cmd, offset time.Duration) error {
	if offset == 0 {
		return cmd.Start()
	}

	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	if _, err := syscall.Wait4(pid, nil, syscall.WALL, nil); err != nil {
		return fmt.Errorf("wait for %d to be traced: %w", pid, err)
	}

	err := setClock(pid, offset)
	return errors.Join(err, syscall.PtraceDetach(pid))
}

// setClock replaces the clock of a process that is stopped.
func setClock(pid int, offset time.Duration) error {
	base, err := vdsoOf(pid)
	if err != nil {
		return err
	}

	image := make([]byte, 2*os.Getpagesize())
	if _, err := syscall.PtracePeekData(pid, base, image); err != nil {
		return fmt.Errorf("read the vDSO: %w", err)
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return fmt.Errorf("read the vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("read the vDSO: %w", err)
	}

	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			_, err := syscall.PtracePokeText(pid, base+uintptr(s.Value), clockStub(offset))
			return err
		}
	}
	return errors.New("the vDSO has no clock")
}

// vdsoOf returns the address of the vDSO (getauxval(3), AT_SYSINFO_EHDR).
func vdsoOf(pid int) (uintptr, error) {
	const sysinfoEHDR = 33
	vector, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return 0, err
	}
	for len(vector) >= 16 {
		if binary.LittleEndian.Uint64(vector) == sysinfoEHDR {
			return uintptr(binary.LittleEndian.Uint64(vector[8:])), nil
		}
		vector = vector[16:]
	}
	return 0, fmt.Errorf("process %d has no vDSO", pid)
}

// needClock ends a test where startAt cannot set a clock.
func needClock(t testing.TB) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		judge.Lacking(t, "the clock of a process can be set on amd64 only")
	}
}
