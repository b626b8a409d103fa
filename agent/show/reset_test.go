package show

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResetText(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    Reset
		want string
	}{
		{
			name: "a node without a configuration",
			r:    Reset{Host: "node-1"},
			want: "reset of node-1 takes away, for good\n  generation  none\n  units       none\n" +
				"  pods        none\n  identity    none\n",
		},
		{
			name: "a node with everything",
			r: Reset{
				Host:       "node-1",
				Generation: "000002-bbbbbbbbbbbb",
				Units:      []string{"a.service"},
				Files:      3,
				Pods:       []string{"default/a", "default/b"},
				Identity:   []string{"/var/lib/kubelet"},
			},
			want: "reset of node-1 takes away, for good\n" +
				"  generation  000002-bbbbbbbbbbbb and all before it, with 1 unit and 3 files\n" +
				"  units       a.service\n  pods        default/a, default/b\n" +
				"  identity    /var/lib/kubelet\n",
		},
		{
			name: "unknown pods",
			r:    Reset{Host: "node-1", Unknown: "no answer"},
			want: "reset of node-1 takes away, for good\n  generation  none\n  units       none\n" +
				"  pods        not known: no answer\n  identity    none\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.r.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
