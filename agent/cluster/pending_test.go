package cluster

import (
	"testing"

	core "k8s.io/api/core/v1"
)

func TestLabelDefaultsToTheDigest(t *testing.T) {
	s := &core.Secret{Data: map[string][]byte{dataKey: []byte("text")}}
	got := pendingConfigOf(s, "me", noon).label
	if got != "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1" {
		t.Error(got)
	}
	s.Annotations = map[string]string{checksumAnnotation: "said"}
	if got := pendingConfigOf(s, "me", noon).label; got != "said" {
		t.Error(got)
	}
}
