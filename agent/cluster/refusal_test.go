package cluster

import (
	"testing"
)

func TestOneEventPerReason(t *testing.T) {
	var record refusalRecord

	for _, tt := range []struct {
		name, node, sum, reason string
		want                    bool
	}{
		{"the first", "a", "one", "OSCUnavailable", true},
		{"once more", "a", "one", "OSCUnavailable", false},
		{"another reason", "a", "one", "OSCNotApplied", true},
		{"the first reason again", "a", "one", "OSCUnavailable", false},
		{"another document", "a", "two", "OSCUnavailable", true},
		{"another Node", "b", "two", "OSCUnavailable", true},
	} {
		if got := record.isNew(tt.node, tt.sum, tt.reason); got != tt.want {
			t.Errorf("%s: new %v", tt.name, got)
		}
	}
}
