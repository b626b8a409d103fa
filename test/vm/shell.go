package vm

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Shell runs commands in the debug shell on the machine's second serial port,
// which is there if the machine's machine.yaml asks for one on ttyS1 (arm64:
// ttyAMA1).
type Shell struct {
	conn io.ReadWriter
	id   string // in what this Shell has the other end say, to know it by
	mu   sync.Mutex
	data chan []byte
	rest []byte
	used int // number of commands, to tell their ends apart
}

// NewShell is the shell at the other end of conn: the machine's serial port, or
// what Join has connected to that.
func NewShell(conn io.ReadWriter) *Shell {
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
		// the last. Without job control, a key that interrupts is for the shell
		// and its commands alike.
		if _, err := io.WriteString(s.conn, "\n"+
			"stty -echo -onlcr; PS1=; PS2=; IGNOREEOF=99; set +m; "+
			"bind 'set enable-bracketed-paste off'; echo open-''"+
			s.id+"\n"); err != nil {
			return fmt.Errorf("debug shell: %w", err)
		}

		try, cancel := context.WithTimeout(ctx, wait)
		err := s.until(try, "open-"+s.id+"\n", io.Discard)
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
	var text strings.Builder
	err := s.run(ctx, command+"\n} </dev/null", nil, &text)
	out := strings.TrimSuffix(text.String(), "\n")

	var code *ExitError
	if errors.As(err, &code) {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return out, err
}

// Stream runs a command, and writes to out what it writes, at once. The command
// reads in, as from a terminal: what it does not read is for the shell. An
// [ExitError] is the end of a command with a code other than 0.
func (s *Shell) Stream(ctx context.Context, command string, in io.Reader, out io.Writer) error {
	return s.run(ctx, command+"\n}", in, out)
}

// WithInput returns a command that runs command with the standard input in, which
// may be binary.
func WithInput(command string, in []byte) string {
	var b strings.Builder
	b.WriteString("base64 -d <<'end-of-input' | {\n")
	for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(in)), 76) {
		b.Write(line)
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "end-of-input\n%s\n}", command)
	return b.String()
}

// ExitError says that a command ended with a code other than 0.
type ExitError struct{ Command, Code string }

// Error implements error.
func (e *ExitError) Error() string {
	return fmt.Sprintf("debug shell: %s: exit code %s", e.Command, e.Code)
}

// run runs the rest of a group of commands. If it cannot wait for their end, as
// ctx has ended, it interrupts them and waits until the shell is free again.
func (s *Shell) run(ctx context.Context, group string, in io.Reader, out io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used++
	mark := fmt.Sprintf("%s-%d", s.id, s.used)

	// A group, so that the command reads none of the lines behind it. Only the
	// first word after it sees its exit code. The group begins when all of it
	// was read: a terminal that echoes has done so before "begin".
	line := fmt.Sprintf("{ printf 'begin-%%s\\n' %s; %s 2>&1; printf '\\nend-%%s-\\n' %s-$?\n",
		mark, group, mark)
	command, _, _ := strings.Cut(group, "\n")
	if _, err := io.WriteString(s.conn, line); err != nil {
		return fmt.Errorf("debug shell: %w", err)
	}

	err := s.begins(ctx, mark)
	if err == nil {
		go s.feed(in)
		err = s.until(ctx, "\nend-"+mark+"-", out)
	}
	var code strings.Builder
	if err == nil {
		err = s.until(ctx, "-\n", &code)
	}

	switch {
	case err != nil:
		return fmt.Errorf("debug shell: %s: %w", command, errors.Join(err, s.free()))
	case code.String() != "0":
		return &ExitError{command, code.String()}
	}
	return nil
}

// beginLimit is how long a shell that is free takes to begin a command.
const beginLimit = 2 * time.Minute

// begins waits until the command with that mark begins.
func (s *Shell) begins(ctx context.Context, mark string) error {
	limited, cancel := context.WithTimeoutCause(ctx, beginLimit,
		fmt.Errorf("it has not begun after %s", beginLimit))
	defer cancel()

	err := s.until(limited, "begin-"+mark+"\n", io.Discard)
	if err != nil && limited.Err() != nil {
		return context.Cause(limited)
	}
	return err
}

// feed types what in has, and then the end of the input.
func (s *Shell) feed(in io.Reader) {
	if in == nil {
		return
	}
	if _, err := io.Copy(s.conn, in); err == nil {
		_, _ = io.WriteString(s.conn, ctrlD)
	}
}

// until writes to out what comes before mark, as soon as it cannot be the mark.
func (s *Shell) until(ctx context.Context, mark string, out io.Writer) error {
	for {
		s.rest = bytes.ReplaceAll(s.rest, []byte("\r"), nil)
		before, after, ended := bytes.Cut(s.rest, []byte(mark))
		if !ended {
			before = before[:max(0, len(before)-len(mark))]
			after = s.rest[len(before):]
		}
		if _, err := out.Write(before); err != nil {
			return err
		}
		s.rest = after
		if ended {
			return nil
		}

		select {
		case b, ok := <-s.data:
			if !ok {
				_, err := out.Write(s.rest)
				s.rest = nil
				return errors.Join(err, io.ErrUnexpectedEOF)
			}
			s.rest = append(bytes.Clone(s.rest), b...)
		case <-ctx.Done():
			_, err := out.Write(s.rest)
			s.rest = nil
			return errors.Join(err, ctx.Err())
		}
	}
}

// Attach connects a terminal to the shell until quit is typed or the machine is
// off.
func (s *Shell) Attach(in io.Reader, out io.Writer, quit byte) error {
	if _, err := io.WriteString(s.conn, "stty echo onlcr sane; set -m; PS1='loam# '\n"); err != nil {
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
// then interrupts the running command, drops its further output, and waits until
// the shell is free again. The error is that it is not.
func (s *Shell) Join(conn io.ReadWriteCloser) (err error) {
	for len(s.data) > 0 {
		<-s.data
	}

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(s.conn, conn)
	}()

	defer func() {
		conn.Close()
		<-ended
		err = s.free()
	}()

	for {
		select {
		case b, ok := <-s.data:
			if !ok {
				return nil
			}
			if _, err := conn.Write(b); err != nil {
				return nil
			}
		case <-ended:
			return nil
		}
	}
}

// free waits until the shell answers. It interrupts a command that runs for more
// than a second, until the shell answers twice, and gives up after half a minute.
// A machine that is off is no error.
//
// A key that comes while bash starts a command may end neither of the two, and
// bash then reads one more line before it waits for the command. At worst, bash
// 5.2 never returns from waiting, and uses a processor: one of some thousand
// interrupts did that, so a shell that is free gets none. A shell without a
// terminal reads the key as a command, which the new line ends.
func (s *Shell) free() error {
	interrupt := false
	for wait := time.Second; wait <= 16*time.Second; wait *= 2 {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		err := s.answers(ctx, interrupt)
		cancel()

		if !errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		interrupt = true
	}

	return errors.New("the shell does not answer any more")
}

// answers waits for an answer of the shell, or interrupts its command and waits
// for two.
func (s *Shell) answers(ctx context.Context, interrupt bool) error {
	if !interrupt {
		return s.answer(ctx, "")
	}
	if err := s.answer(ctx, ctrlC+"\n"); err != nil {
		return err
	}
	return s.answer(ctx, "")
}

// answer types keys and a command, and waits for the output of the command.
func (s *Shell) answer(ctx context.Context, keys string) error {
	s.used++
	mark := fmt.Sprintf("%s-%d", s.id, s.used)
	if _, err := fmt.Fprintf(s.conn, "%sprintf 'free-%%s\n' %s\n", keys, mark); err != nil {
		return err
	}
	return s.until(ctx, "free-"+mark+"\n", io.Discard)
}

// Keys of a terminal (termios(3), VINTR and VEOF).
const ctrlC, ctrlD = "\x03", "\x04"

// Write types into the shell and waits for nothing.
func (s *Shell) Write(p []byte) (int, error) { return s.conn.Write(p) }

// ShellTTY is the terminal, on the machine, of the second serial port.
func ShellTTY(arch string) string {
	if arch == "arm64" {
		return "ttyAMA1"
	}
	return "ttyS1"
}
