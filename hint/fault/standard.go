package fault

import (
	"context"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"syscall"
)

// numbers are the codes of errors of the kernel. fs.ErrNotExist and
// fs.ErrPermission have more than one of them.
var numbers = []struct {
	err  error
	code Code
}{
	{syscall.ENOSPC, DiskFull},
	{syscall.EDQUOT, DiskFull},
	{syscall.EROFS, ReadOnly},
	{syscall.EIO, DiskError},
	{syscall.EMFILE, LimitReached},
	{syscall.ENFILE, LimitReached},
	{syscall.EAGAIN, LimitReached},
	{syscall.EBUSY, InUse},
	{syscall.ENOTDIR, WrongFileType},
	{syscall.EISDIR, WrongFileType},
	{fs.ErrPermission, NotPermitted},
	{fs.ErrNotExist, FileMissing},
	{syscall.ENAMETOOLONG, FileMissing},
	{syscall.ELOOP, FileMissing},
	{fs.ErrExist, FileExists},
}

// classify returns the code of an error of the standard library.
func classify(err error) Code {
	// A request that was interrupted ends with an error of the network, too.
	if errors.Is(err, context.Canceled) {
		return Interrupted
	}
	if code := ofCertificate(err); code != "" {
		return code
	}
	if code := ofNetwork(err); code != "" {
		return code
	}
	for _, n := range numbers {
		if errors.Is(err, n.err) {
			return n.code
		}
	}

	if errors.Is(err, context.DeadlineExceeded) {
		return TimedOut
	}

	return Failed
}

func ofCertificate(err error) Code {
	if invalid, is := errors.AsType[x509.CertificateInvalidError](err); is {
		if invalid.Reason == x509.Expired {
			return CertificateExpired
		}
		return CertificateNotTrusted
	}
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	if unknown || host {
		return CertificateNotTrusted
	}
	return ""
}

func ofNetwork(err error) Code {
	if _, is := errors.AsType[*net.DNSError](err); is {
		return NameNotFound
	}
	if errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH) {
		return NoRoute
	}
	if op, is := errors.AsType[*net.OpError](err); is && op.Net != "unix" {
		switch op.Op {
		case "listen":
			return AddressNotFree
		case "remote error": // An alert of TLS from the other end (crypto/tls).
			return TLSFailed
		}
		return ServerUnreachable
	}
	if request, is := errors.AsType[*url.Error](err); is && request.Op != "parse" {
		return ServerUnreachable
	}
	return ""
}
