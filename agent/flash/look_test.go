package flash_test

import (
	"bytes"
	"testing"

	"github.com/loam-os/loam/agent/flash"
	"github.com/loam-os/loam/hint/fault"
)

func TestFileWithoutAPartitionTableIsNotAnImage(t *testing.T) {
	_, err := flash.Look(bytes.NewReader(make([]byte, 1<<20)), 1<<20)
	if code := fault.Of(err); code != fault.NotAnImage {
		t.Errorf("code %s of %v, want %s", code, err, fault.NotAnImage)
	}
}
