package fault_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"syscall"
	"testing"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

var errPlain = errors.New("disk of node full")

func TestCodeOfAnError(t *testing.T) {
	refused := &net.OpError{
		Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
	}

	for _, row := range []struct {
		name string
		err  error
		want fault.Code
	}{
		{"no error", nil, ""},
		{"nothing is known", errPlain, fault.Failed},
		{"attached", fault.With(errPlain, fault.Held), fault.Held},
		{
			"attached, and wrapped with a hint",
			hint.With(fmt.Errorf("a: %w", fault.With(errPlain, fault.Held)), "b"),
			fault.Held,
		},
		{
			"attached twice: the one closer to the cause counts",
			fault.With(fault.With(errPlain, fault.Held), fault.Busy),
			fault.Held,
		},
		{
			"attached to a sentinel beside a cause",
			fmt.Errorf("%w: %w", fault.With(errPlain, fault.RepositoryUnreachable), refused),
			fault.RepositoryUnreachable,
		},
		{
			"attached above an error of the standard library",
			fault.With(fs.ErrNotExist, fault.NotABuild),
			fault.NotABuild,
		},
		{
			"one of two joined errors",
			errors.Join(errPlain, fault.With(errPlain, fault.Held)),
			fault.Held,
		},
		{
			"a file that is not there",
			&fs.PathError{Op: "open", Path: "a", Err: syscall.ENOENT}, fault.FileMissing,
		},
		{
			"no permission",
			&fs.PathError{Op: "open", Path: "a", Err: syscall.EACCES}, fault.NotPermitted,
		},
		{"a file for a directory", fmt.Errorf("open: %w", syscall.ENOTDIR), fault.WrongFileType},
		{"a directory for a file", fmt.Errorf("read: %w", syscall.EISDIR), fault.WrongFileType},
		{
			"a name that is too long",
			&fs.PathError{Op: "open", Path: "a", Err: syscall.ENAMETOOLONG}, fault.FileMissing,
		},
		{"a full disk", fmt.Errorf("write: %w", syscall.ENOSPC), fault.DiskFull},
		{"a read-only file system", fmt.Errorf("write: %w", syscall.EROFS), fault.ReadOnly},
		{"a failing disk", fmt.Errorf("read: %w", syscall.EIO), fault.DiskError},
		{
			"a file in place of a directory",
			&fs.PathError{Op: "open", Path: "a/b", Err: syscall.ENOTDIR}, fault.WrongFileType,
		},
		{
			"a directory in place of a file",
			&fs.PathError{Op: "read", Path: "a", Err: syscall.EISDIR}, fault.WrongFileType,
		},
		{"a disk in use", fmt.Errorf("open: %w", syscall.EBUSY), fault.InUse},
		{
			"a connection that is refused",
			&url.Error{Op: "Get", Err: refused},
			fault.ServerUnreachable,
		},
		{
			"a port that is taken",
			&net.OpError{Op: "listen", Net: "tcp", Err: syscall.EADDRINUSE}, fault.AddressNotFree,
		},
		{
			"a name without an address",
			&url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{}}},
			fault.NameNotFound,
		},
		{
			"an unknown authority",
			&url.Error{Op: "Get", Err: x509.UnknownAuthorityError{}}, fault.CertificateNotTrusted,
		},
		{
			"a certificate of another time",
			x509.CertificateInvalidError{Reason: x509.Expired}, fault.CertificateExpired,
		},
		{
			"a socket of this machine that is not there",
			&net.OpError{Op: "dial", Net: "unix", Err: syscall.ENOENT}, fault.FileMissing,
		},
		{"Ctrl-C", fmt.Errorf("wait: %w", context.Canceled), fault.Interrupted},
		{
			"Ctrl-C during a request",
			&url.Error{Op: "Get", Err: context.Canceled}, fault.Interrupted,
		},
		{"a deadline", fmt.Errorf("wait: %w", context.DeadlineExceeded), fault.TimedOut},
	} {
		t.Run(row.name, func(t *testing.T) {
			if have := fault.Of(row.err); have != row.want {
				t.Errorf("code %q, want %q", have, row.want)
			}
		})
	}
}

func TestCodedErrorIsWhatItWraps(t *testing.T) {
	err := fault.With(hint.With(errPlain, "make room"), fault.DiskFull)
	if !errors.Is(err, errPlain) || hint.Text(err) != "disk of node full\nhint: make room" {
		t.Errorf("%s is not %v", hint.Text(err), errPlain)
	}
	if err := fault.With(nil, fault.Failed); err != nil {
		t.Errorf("no error became %v", err)
	}
}

func TestExitStatusSaysTheClass(t *testing.T) {
	for code, want := range map[fault.Code]int{
		fault.Failed:          1,
		fault.Usage:           2,
		fault.Held:            3,
		fault.AgentNotRunning: 4,
		fault.Interrupted:     130,
		"of-a-newer-agent":    1,
	} {
		if have := code.Class().ExitStatus(); have != want {
			t.Errorf("%s: exit status %d, want %d", code, have, want)
		}
	}
}

// TestTableHasEveryCodeOnce reads the constants, so that none is forgotten.
func TestTableHasEveryCodeOnce(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "table.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := map[fault.Code]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if is && len(spec.Values) == 1 {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil || constants[fault.Code(text)] {
				t.Errorf("constant %s: %q, %v", spec.Names[0].Name, text, err)
			}
			constants[fault.Code(text)] = true
		}
		return true
	})

	name := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	for _, f := range fault.Table() {
		if !constants[f.Code] {
			t.Errorf("%s is in the table twice, or has no constant", f.Code)
		}
		delete(constants, f.Code)
		if !name.MatchString(string(f.Code)) || f.Meaning == "" || f.Class == "" {
			t.Errorf("%q: %+v", f.Code, f)
		}
	}
	for code := range constants {
		t.Errorf("%s is not in the table", code)
	}
}
