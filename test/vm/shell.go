package vm

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Shell runs commands in the debug shell on the machine's second serial port,
// which is there if the machine's machine.yaml asks for one on ttyS1 (arm64:
// ttyAMA1).
type Shell struct {
	conn net.Conn
	id   string // in what this Shell has the other end say, to know it by
	mu   sync.Mutex
	data chan []byte
	rest []byte
	used int // number of commands, to tell their ends apart
}

// NewShell is the shell at the other end of conn: the machine's serial port, or
// what Join has connected to that.
func NewShell(conn net.Conn) *Shell {
	s := &Shell{conn: conn, id: rand.Text()[:6], data: make(chan []byte, 1024)}
	go func() {
		defer close(s.data)
		for {
			buf := make([]byte, 4096)
			n, err := conn.Read(buf)
			if n > 0 {
				s.data <- buf[:n]
			}
			if err != nil {
				return
			}
		}
	}()

	return s
}

// Open waits for the shell. It repeats its request, since a serial port drops
// input while no process reads; with growing pauses, as a machine that starts
// slowly reads most requests in the end, and answers each.
func (s *Shell) Open(ctx context.Context) error {
	for wait := 2 * time.Second; ; wait = min(2*wait, 16*time.Second) {
		// The quotes keep the terminal's echo of the line from looking like the
		// answer. A line of its own: the port may have kept the beginning of
		// the last.
		if _, err := io.WriteString(s.conn, "\n"+
			"stty -echo -onlcr; PS1=; PS2=; bind 'set enable-bracketed-paste off'; echo open-''"+
			s.id+"\n"); err != nil {
			return fmt.Errorf("debug shell: %w", err)
		}

		try, cancel := context.WithTimeout(ctx, wait)
		_, err := s.until(try, "open-"+s.id+"\n")
		cancel()
		if err == nil {
			// Lines of earlier tries are answered before this.
			_, err = s.Run(ctx, "true")
			return err
		}

		if ctx.Err() != nil {
			return err
		}
	}
}

// Run runs a command and returns what it wrote; a command that ends with a code
// other than 0 is an error with that output.
func (s *Shell) Run(ctx context.Context, command string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used++
	mark := fmt.Sprintf("%s-%d", s.id, s.used)

	// A group, so that the command reads none of the lines behind it. Only the
	// first word after it sees its exit code. The group begins when all of it
	// was read: a terminal that echoes has done so before "begin".
	line := fmt.Sprintf("{ printf 'begin-%%s\\n' %s; %s\n"+
		"} </dev/null 2>&1; printf '\\nend-%%s-\\n' %s-$?\n", mark, command, mark)
	if _, err := io.WriteString(s.conn, line); err != nil {
		return "", fmt.Errorf("debug shell: %w", err)
	}

	if out, err := s.until(ctx, "begin-"+mark+"\n"); err != nil {
		return out, fmt.Errorf("debug shell: %s: %w", command, err)
	}

	out, err := s.until(ctx, "\nend-"+mark+"-")
	if err != nil {
		return out, fmt.Errorf("debug shell: %s: %w", command, err)
	}

	code, err := s.until(ctx, "-\n")
	if err != nil {
		return out, fmt.Errorf("debug shell: %s: %w", command, err)
	}
	if n, err := strconv.Atoi(code); err != nil || n != 0 {
		return out, fmt.Errorf("debug shell: %s: exit code %s\n%s", command, code, out)
	}

	return strings.TrimSuffix(out, "\n"), nil
}

// until returns what comes before mark.
func (s *Shell) until(ctx context.Context, mark string) (string, error) {
	for {
		clean := bytes.ReplaceAll(s.rest, []byte("\r"), nil)
		if before, after, ok := bytes.Cut(clean, []byte(mark)); ok {
			s.rest = after
			return string(before), nil
		}

		select {
		case b, ok := <-s.data:
			if !ok {
				return string(clean), io.ErrUnexpectedEOF
			}
			s.rest = append(s.rest, b...)
		case <-ctx.Done():
			return string(clean), ctx.Err()
		}
	}
}

// Attach connects a terminal to the shell until quit is typed or the machine is
// off.
func (s *Shell) Attach(in io.Reader, out io.Writer, quit byte) error {
	if _, err := io.WriteString(s.conn, "stty echo onlcr sane; PS1='loam# '\n"); err != nil {
		return fmt.Errorf("debug shell: %w", err)
	}

	ended := make(chan error, 1)
	go func() {
		buf := make([]byte, 256)
		for {
			n, err := in.Read(buf)
			if i := bytes.IndexByte(buf[:n], quit); i >= 0 || err != nil {
				ended <- err
				return
			}
			if _, err := s.conn.Write(buf[:n]); err != nil {
				ended <- err
				return
			}
		}
	}()

	for {
		select {
		case b, ok := <-s.data:
			if !ok {
				return nil
			}
			if _, err := out.Write(b); err != nil {
				return err
			}
		case err := <-ended:
			return err
		}
	}
}

// Join connects conn to the shell until one of them ends, and closes it. It
// then interrupts the running command, and drops its further output.
func (s *Shell) Join(conn io.ReadWriteCloser) {
	for len(s.data) > 0 {
		<-s.data
	}

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(s.conn, conn)
		_, _ = s.conn.Write([]byte{interrupt})
	}()

	defer func() {
		conn.Close()
		<-ended
	}()

	for {
		select {
		case b, ok := <-s.data:
			if !ok {
				return
			}
			if _, err := conn.Write(b); err != nil {
				return
			}
		case <-ended:
			return
		}
	}
}

// interrupt is Ctrl-C.
const interrupt = 0x03

// Write types into the shell and waits for nothing.
func (s *Shell) Write(p []byte) (int, error) { return s.conn.Write(p) }

// ShellTTY is the terminal, on the machine, of the second serial port.
func ShellTTY(arch string) string {
	if arch == "arm64" {
		return "ttyAMA1"
	}
	return "ttyS1"
}
