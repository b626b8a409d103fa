package cluster

import (
	"strings"
	"testing"
)

func TestCorruptRecordIsAnError(t *testing.T) {
	root, dir := newRoot(t)
	if _, ok, err := loadRecord(root); ok || err != nil {
		t.Errorf("none: %v %v", ok, err)
	}

	place(t, dir, recordName, `{"done":{"os":"1.0`)
	_, ok, err := loadRecord(root)
	if ok || err == nil ||
		!strings.HasPrefix(err.Error(), "/var/lib/loam/inplace.json is damaged: ") {
		t.Errorf("%v %v", ok, err)
	}
}
