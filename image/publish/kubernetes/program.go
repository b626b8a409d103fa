package kubernetes

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// machines are the ELF machines of the architectures.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkProgram reports a program of another architecture, or one of Kubernetes
// that does not have its version in it.
func checkProgram(file, version, arch string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()

	program, err := elf.NewFile(f)
	if err != nil {
		return fmt.Errorf("%s: not a program for Linux: %w", file, err)
	}
	if program.Machine != machines[arch] {
		return fmt.Errorf("%s: a program for %s, want %s", file, program.Machine, machines[arch])
	}

	if !strings.HasPrefix(filepath.Base(file), "kube") {
		return nil
	}
	has, err := contains(io.NewSectionReader(f, 0, 1<<40), []byte("v"+version))
	if err == nil && !has {
		err = fmt.Errorf("%s: not of version %s", file, version)
	}
	return err
}

// contains reports whether r has text in it, and no digit after it: v1.36.1 is not
// v1.36.10.
func contains(r io.Reader, text []byte) (bool, error) {
	const size = 1 << 20
	buf := make([]byte, size+len(text))
	kept := 0
	for {
		n, err := io.ReadFull(r, buf[kept:])
		atEnd := err == io.EOF || err == io.ErrUnexpectedEOF
		if hasVersion(buf[:kept+n], text, atEnd) {
			return true, nil
		}
		if atEnd {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		kept = copy(buf, buf[len(buf)-len(text):])
	}
}

// hasVersion reports whether b has text in it, followed by something else than a
// digit, or at its very end if nothing comes after b.
func hasVersion(b, text []byte, atEnd bool) bool {
	for {
		at := bytes.Index(b, text)
		if at < 0 {
			return false
		}
		b = b[at+len(text):]
		if len(b) == 0 {
			return atEnd
		}
		if b[0] < '0' || b[0] > '9' {
			return true
		}
	}
}
