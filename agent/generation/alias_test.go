package generation

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
)

func TestEnablementIsRefused(t *testing.T) {
	alias := func(name, of string) config.Unit { return own(name, "[Install]\nAlias="+of+"\n") }
	tied := func(name, by string) config.Unit { return own(name, "[Install]\n"+by+"\n") }
	tests := []struct {
		name  string
		units []config.Unit
		want  string
	}{
		{
			"of the agent's unit, put together from the name",
			[]config.Unit{alias("-agent.service", "loam%p.service")},
			"[Install] makes it loam-agent.service, which belongs to Loam",
		},
		{
			"of the agent's unit, as it is",
			[]config.Unit{alias("a.service", AgentUnit)},
			"[Install] makes it loam-agent.service, which belongs to Loam",
		},
		{
			"of the agent's unit, by an instance",
			[]config.Unit{
				disabled(own("a@.service", "[Install]\nAlias=loam-%i.service\n")),
				{Name: "a@agent.service"},
			},
			"[Install] makes it loam-agent.service, which belongs to Loam",
		},
		{
			"of another unit of Loam",
			[]config.Unit{alias("a.service", "loam-debug-shell@ttyS0.service")},
			"[Install] makes it loam-debug-shell@ttyS0.service, which belongs to Loam",
		},
		{
			"the same of two units",
			[]config.Unit{alias("a.service", "x.service"), alias("b.service", "x.service")},
			"[Install] makes it x.service, as does [Install] of a.service",
		},
		{
			"the same of two units, put together from the names",
			[]config.Unit{alias("a-x.service", "%j.service"), alias("b-x.service", "%j.service")},
			"[Install] makes it x.service, as does [Install] of a-x.service",
		},
		{
			"for what the agent needs",
			[]config.Unit{tied("a.service", "RequiredBy="+AgentUnit)},
			"[Install] ties it to loam-agent.service, which belongs to Loam",
		},
		{
			"for what the agent starts, put together from the name",
			[]config.Unit{tied("a@agent.service", "WantedBy=loam-%i.service")},
			"[Install] ties it to loam-agent.service, which belongs to Loam",
		},
		{
			"for what keeps another unit of Loam up",
			[]config.Unit{tied("a.service", "UpheldBy=loam-data-volume.service")},
			"[Install] ties it to loam-data-volume.service, which belongs to Loam",
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Expand(config.Desired{Units: tt.units}, Vendor{})
			var refused *Error
			if !errors.As(err, &refused) {
				t.Fatal(err)
			}

			last := tt.units[len(tt.units)-1].Name
			diff := cmp.Diff(Error{Unit: last, Problem: tt.want},
				Error{Unit: refused.Unit, Problem: refused.Problem})
			if diff != "" || refused.Hint == "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAliasOfADisabledUnitIsFree(t *testing.T) {
	const text = "[Install]\nAlias=x.service\n"
	_, err := Expand(
		config.Desired{Units: []config.Unit{
			disabled(own("a.service", text)), own("b.service", text),
		}},
		Vendor{},
	)
	if err != nil {
		t.Error(err)
	}
}
