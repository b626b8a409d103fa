package node

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/tpm"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/test/judge"
)

// TestTheNumberInATPM is not raised by root on a running node: /init has locked
// the TPM.
func TestTheNumberInATPM(t *testing.T) {
	judge.Long(t, "agent/tpm")
	parallel(t, 2*time.Minute)
	b := open(t)
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "raise"), "./testdata/raise")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+b.manifest.Arch)

	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	_, port, _ := strings.Cut(server.Listener.Addr().String(), ":")
	m := b.flash(t, b.file(".raw"))
	m.config.Host = true

	m.config.TPM = filepath.Join(m.config.Dir, "tpm")
	if err := os.Mkdir(m.config.TPM, 0o700); err != nil {
		t.Fatal(err)
	}

	n := m.on(t, map[string]string{"loam.machine": machineYAML(b.manifest.Arch, "")})
	n.shell()
	n.sh("curl -sSf --retry 60 --retry-delay 1 --retry-all-errors -o /tmp/raise http://10.0.2.2:" +
		port + "/raise && chmod +x /tmp/raise")
	n.want("/tmp/raise 5",
		"set bits of NV index 0x1804c4f: the TPM is locked until the next start (PCR 15)")
}

// TestAnOldSystemDoesNotStart, however it came to the disk: /init asks the TPM,
// and the loader starts its boot entry last from then on.
func TestAnOldSystemDoesNotStart(t *testing.T) {
	judge.Long(t, "agent/boot")
	parallel(t, 3*time.Minute)
	m := damaged(t, func(*machine, *os.File) {}) // For its raw disk.
	m.newTPM("tpm")
	raise(t, m.config.TPM, 1)

	n := m.on(t, nil)
	n.expect(regexp.MustCompile(`cannot boot: this system has security epoch 0, and the TPM of ` +
		`the machine allows none below 1`))
	_ = n.Kill()
	entries := m.tool("mdir", "-b", "-i", fmt.Sprintf("%s@@%d", m.config.Disk, m.partition(esp)),
		"::"+bootentry.Dir)
	if !strings.Contains(entries, "+0-0.efi") {
		t.Errorf("entries: %s, want a parked one", entries)
	}
}

// raise raises the number in a TPM whose state is in a directory.
func raise(t *testing.T, dir string, to int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(pair[0]), "tpm")
	theirs := os.NewFile(uintptr(pair[1]), "swtpm")
	defer theirs.Close()

	chip := exec.Command(judge.Find(t, "swtpm"), "socket", "--tpm2", "--tpmstate", "dir="+dir,
		"--flags", "not-need-init,startup-clear", "--fd", "3")
	chip.ExtraFiles = []*os.File{theirs}
	if err := chip.Start(); err != nil {
		t.Fatal(err)
	}

	number := tpm.Number{Open: func() (io.ReadWriteCloser, error) { return kept{ours}, nil }}
	err = number.Raise(to)
	if err := errors.Join(err, ours.Close()); err != nil {
		t.Fatal(err)
	}
	_ = chip.Wait() // It reports the lost connection.
}

// kept is a connection that stays open.
type kept struct{ io.ReadWriter }

// Close implements [io.Closer].
func (kept) Close() error { return nil }
