package cluster

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/test/files"
)

func TestCorruptRecordIsAnError(t *testing.T) {
	root := files.Root(t)
	if _, ok, err := loadRecord(root); ok || err != nil {
		t.Errorf("none: %v %v", ok, err)
	}

	files.Write(t, filepath.Join(root.Name(), recordName), `{"done":{"os":"1.0`)
	_, ok, err := loadRecord(root)
	if ok || err == nil ||
		!strings.HasPrefix(err.Error(), "/var/lib/loam/inplace.json is damaged: ") {
		t.Errorf("%v %v", ok, err)
	}
}
