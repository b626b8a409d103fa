package document_test

import (
	"testing"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

func TestFileThatNeverEndsIsRefused(t *testing.T) {
	_, err := document.ReadFile("/dev/zero")
	const want = "/dev/zero: more than 64 MiB; hint: a document has at most 1572864 bytes; " +
		"is this the right file?"
	if err == nil || hint.Line(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if code := fault.Of(err); code != fault.DocumentInvalid {
		t.Errorf("code %s, want %s", code, fault.DocumentInvalid)
	}
}
