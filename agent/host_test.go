package agent

import (
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/files"
)

// TestAStatusThatCannotBeWrittenIsAnError: the loop writes it again later.
func TestAStatusThatCannotBeWrittenIsAnError(t *testing.T) {
	n := unidentified(t)
	inTheWay := status.Path[1:] + "/x"
	files.Write(t, filepath.Join(n.Root, inTheWay), "in a directory in place of the file")
	h := host{node: n}
	if err := h.Publish(status.Status{Phase: status.Applied}, true); err == nil {
		t.Error("Publish reports no error")
	}

	if err := n.root.RemoveAll(status.Path[1:]); err != nil {
		t.Fatal(err)
	}
	if err := h.Publish(status.Status{Phase: status.Applied}, true); err != nil {
		t.Error(err)
	}
	if got := saidBefore(n.root); got.Phase != status.Applied {
		t.Errorf("status %+v", got)
	}
}
