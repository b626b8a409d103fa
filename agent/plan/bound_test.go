package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/unit"
)

// Units that depend on others: with several names, in slices, bound to others.
func TestBoundUnits(t *testing.T) {
	up := func(id string, boundBy ...string) unit.State {
		return unit.State{ID: id, Active: "active", BoundBy: boundBy}
	}

	aliased := own("a.service", "[Install]\nAlias=b.service\nWantedBy=x.target\n")
	bound := own("b.service", "[Unit]\nRequires=a.service\n")
	tests := []struct {
		name       string
		have, want config.Desired
		observed   Observed
		actions    string
	}{
		{
			"a removed slice with a service in it that stays",
			units(own("a.slice", "x"), own("b.service", "[Service]\nSlice=a.slice\n")),
			units(own("b.service", "[Service]\nSlice=a.slice\n")),
			Observed{"a.slice": up("a.slice", "b.service"), "b.service": up("b.service")},
			"",
		},
		{"a stopped slice stops the units in it",
			units(own("a.slice", "x"), own("b.service", "[Service]\nSlice=a.slice\n")),
			units(with(own("a.slice", "x"), stop), own("b.service", "[Service]\nSlice=a.slice\n")),
			Observed{"a.slice": up("a.slice", "b.service"), "b.service": up("b.service")},
			"stop a.slice, start b.service"},
		{"units bound to a unit that stops with another stop, too",
			units(own("a.service", "x"), own("b.service", "[Unit]\nPartOf=a.service\n"),
				own("c.service", "[Unit]\nRequires=b.service\n")),
			units(with(own("a.service", "x"), stop), own("b.service", "[Unit]\nPartOf=a.service\n"),
				own("c.service", "[Unit]\nRequires=b.service\n")),
			Observed{
				"a.service": up("a.service", "b.service"),
				"b.service": up("b.service", "c.service"),
				"c.service": up("c.service"),
			},
			"stop a.service, start b.service, start c.service"},
		{
			"an alias that is no longer listed, of a unit that is",
			units(aliased, config.Unit{Name: "b.service"}),
			units(aliased),
			Observed{"a.service": up("a.service"), "b.service": up("a.service")},
			"",
		},
		{
			"an alias that is no longer listed, of a unit that leaves too",
			units(aliased, config.Unit{Name: "b.service"}),
			units(),
			Observed{"a.service": up("a.service"), "b.service": up("a.service")},
			"stop a.service",
		},
		{"an alias that is no longer listed, and a file that only it listed changes",
			config.Desired{
				Files: []config.File{file("/etc/a", "x")},
				Units: []config.Unit{aliased, {Name: "b.service", FilePaths: []string{"/etc/a"}}},
			},
			config.Desired{
				Files: []config.File{file("/etc/a", "y")},
				Units: []config.Unit{aliased},
			},
			Observed{"a.service": up("a.service"), "b.service": up("a.service")},
			"restart a.service"},
		{"a unit under two names, bound to another",
			units(own("c.service", "x"),
				own("a.service", "[Unit]\nPartOf=c.service\n[Install]\n"+
					"Alias=b.service\n"), config.Unit{Name: "b.service"}),
			units(own("c.service", "y"),
				own("a.service", "[Unit]\nPartOf=c.service\n[Install]\n"+
					"Alias=b.service\n"), config.Unit{Name: "b.service"}),
			Observed{
				"a.service": up("a.service"),
				"b.service": up("a.service"),
				"c.service": up("c.service", "a.service"),
			},
			"restart a.service by c.service, restart c.service"},
		{"a drop-in under the alias, new",
			units(aliased, config.Unit{Name: "b.service"}),
			units(aliased, with(config.Unit{Name: "b.service"}, dropIn("x"))),
			Observed{"a.service": up("a.service"), "b.service": up("a.service")},
			"restart a.service"},
		{
			"a drop-in under the alias, gone with the alias",
			units(aliased, with(config.Unit{Name: "b.service"}, dropIn("x"))),
			units(aliased),
			Observed{"a.service": up("a.service"), "b.service": up("a.service")},
			"restart a.service",
		},
		{
			"an alias that comes before the unit, and both leave",
			units(own("b.service", "[Install]\nAlias=a.service\nWantedBy=x.target\n"),
				config.Unit{Name: "a.service"}),
			units(),
			Observed{"a.service": up("b.service"), "b.service": up("b.service")},
			"stop b.service",
		},
		{
			"an alias that becomes a unit of its own",
			units(aliased),
			units(own("b.service", "x")),
			Observed{"a.service": up("a.service"), "b.service": up("a.service")},
			"stop a.service, start b.service",
		},
		{"bound by the other's RequiredBy",
			units(own("a.service", "x"), own("b.service", "[Install]\nRequiredBy=a.service\n")),
			units(own("a.service", "x"),
				with(own("b.service", "[Install]\nRequiredBy=a.service\n"), dropIn("x"))),
			Observed{"a.service": up("a.service"), "b.service": up("b.service", "a.service")},
			"restart a.service by b.service, restart b.service"},
		{"no longer bound by the other's RequiredBy",
			units(own("a.service", "x"), own("b.service", "[Install]\nRequiredBy=a.service\n")),
			units(own("a.service", "x"), own("b.service", "x")),
			Observed{"a.service": up("a.service"), "b.service": up("b.service", "a.service")},
			"restart b.service"},
		{"bound by the other's RequiredBy, which is new",
			units(own("a.service", "x"), own("b.service", "x")),
			units(own("a.service", "x"), own("b.service", "[Install]\nRequiredBy=a.service\n")),
			Observed{"a.service": up("a.service"), "b.service": up("b.service")},
			"restart a.service by b.service, restart b.service"},
		{"no longer bound by its own text",
			units(own("a.service", "x"), bound),
			units(own("a.service", "y"), own("b.service", "x")),
			Observed{"a.service": up("a.service", "b.service"), "b.service": up("b.service")},
			"restart a.service, restart b.service"},
		{"an instance bound by its own drop-in",
			units(own("a.service", "x"), with(own("t@.service", "x"), disable),
				with(config.Unit{Name: "t@1.service"}, dropIn("[Unit]\nPartOf=a.service\n"))),
			units(own("a.service", "y"), with(own("t@.service", "x"), disable),
				with(config.Unit{Name: "t@1.service"}, dropIn("[Unit]\nPartOf=a.service\n"))),
			Observed{"a.service": up("a.service"), "t@1.service": up("t@1.service")},
			"restart a.service, restart t@1.service by a.service"},
		{
			"an instance's environment file by the specifier of the template",
			config.Desired{
				Files: []config.File{file("/etc/1.env", "x")},
				Units: []config.Unit{
					with(own("t@.service", "[Service]\nEnvironmentFile=/etc/%i.env\n"), disable),
					{Name: "t@1.service"},
				},
			},
			config.Desired{
				Files: []config.File{file("/etc/1.env", "y")},
				Units: []config.Unit{
					with(own("t@.service", "[Service]\nEnvironmentFile=/etc/%i.env\n"), disable),
					{Name: "t@1.service"},
				},
			},
			Observed{"t@1.service": up("t@1.service")},
			"restart t@1.service",
		},
		{
			"an instance's environment file in its own drop-in",
			config.Desired{
				Files: []config.File{file("/etc/1.env", "x")},
				Units: []config.Unit{
					with(own("t@.service", "x"), disable), with(config.Unit{Name: "t@1.service"},
						dropIn("[Service]\nEnvironmentFile=/etc/1.env\n")),
				},
			},
			config.Desired{
				Files: []config.File{file("/etc/1.env", "y")},
				Units: []config.Unit{
					with(own("t@.service", "x"), disable), with(config.Unit{Name: "t@1.service"},
						dropIn("[Service]\nEnvironmentFile=/etc/1.env\n")),
				},
			},
			Observed{"t@1.service": up("t@1.service")},
			"restart t@1.service",
		},
		{
			"a template's drop-in that a drop-in of the instance replaces",
			units(with(with(own("t@.service", "x"), disable), dropIn("x")),
				with(config.Unit{Name: "t@1.service"}, dropIn("i"))),
			units(with(with(own("t@.service", "x"), disable), dropIn("y")),
				with(config.Unit{Name: "t@1.service"}, dropIn("i"))),
			Observed{"t@1.service": up("t@1.service")},
			"",
		},
		{
			"a oneshot that is done and was disabled, enabled",
			units(with(own("a.service", "x"), disable)),
			units(own("a.service", "x")),
			Observed{"a.service": {Active: "inactive", Type: "oneshot", Result: "success"}},
			"start a.service",
		},
		{"the service of a socket that changes, on demand",
			units(own("a.socket", "[Install]\nWantedBy=x.target\n"), own("a.service", "x")),
			units(own("a.socket", "[Install]\nWantedBy=y.target\n"), own("a.service", "x")),
			Observed{"a.socket": up("a.socket"), "a.service": up("a.service")},
			"stop a.service, restart a.socket"},
		{"the service of a socket that changes, disabled",
			units(own("a.socket", "x"), with(own("a.service", "x"), disable)),
			units(own("a.socket", "y"), with(own("a.service", "x"), disable)),
			Observed{"a.socket": up("a.socket"), "a.service": up("a.service")},
			"stop a.service, restart a.socket"},
		{"the service of a socket that changes, wanted besides",
			units(own("a.socket", "x"), own("a.service", "[Install]\nWantedBy=x.target\n")),
			units(own("a.socket", "y"), own("a.service", "[Install]\nWantedBy=x.target\n")),
			Observed{"a.socket": up("a.socket"), "a.service": up("a.service")},
			"stop a.service, restart a.socket, start a.service"},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, a := range Diff(manifest(t, 1, tt.have), manifest(t, 2, tt.want),
				tt.observed).Units {
				line := string(a.Verb) + " " + a.Unit
				if a.By != "" {
					line += " by " + a.By
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(tt.actions, strings.Join(got, ", ")); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}
