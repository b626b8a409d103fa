package fakesystemd

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/godbus/dbus/v5"
)

const propertiesInterface = "org.freedesktop.DBus.Properties"

// table is every property of a running service, as systemd 257 of the image has
// it, a line each: interface, name, type, whether a change is announced with
// the value ("changes") or without ("invalidates"), and the value in the text
// form of GVariant, "-" for a structure.
//
//go:embed properties.tsv
var table string

// property is one line of the table.
type property struct {
	name, tells string
	value       dbus.Variant
}

// structures are the values of types that have a structure in them, which
// godbus does not parse.
var structures = map[string]any{
	"(uo)": jobReference{0, "/"},
	"(ss)": struct{ Name, Message string }{},
	"(bs)": struct {
		Optional bool
		Label    string
	}{},
	"(bas)": struct {
		Allow bool
		Names []string
	}{},
	"(aiai)": struct{ Statuses, Signals []int32 }{},
	"a(sasbttttuii)": []command{
		{Path: "sleep", Arguments: []string{"sleep", "infinity"}, PID: 97},
	},
	"a(sasasttttuii)": []commandEx{
		{Path: "sleep", Arguments: []string{"sleep", "infinity"}, PID: 97},
	},
}

// command is an element of ExecStart, commandEx one of ExecStartEx
// (org.freedesktop.systemd1(5)).
type (
	command struct {
		Path                           string
		Arguments                      []string
		IgnoreFailure                  bool
		Start, StartMono, End, EndMono uint64
		PID                            uint32
		Code, Status                   int32
	}
	commandEx struct {
		Path                           string
		Arguments                      []string
		Flags                          []string
		Start, StartMono, End, EndMono uint64
		PID                            uint32
		Code, Status                   int32
	}
)

// interfaces are the properties of a service by interface.
var interfaces = parse(table)

func parse(text string) map[string][]property {
	all := map[string][]property{}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 5)
		signature, err := dbus.ParseSignature(fields[2])
		if err != nil {
			panic(fmt.Sprintf("fake systemd: property %s: %v", fields[1], err))
		}

		value, err := valueOf(fields[4], signature)
		if err != nil {
			panic(fmt.Sprintf("fake systemd: property %s: %v", fields[1], err))
		}

		name := "org.freedesktop.systemd1." + fields[0]
		all[name] = append(all[name], property{fields[1], fields[3], value})
	}

	return all
}

func valueOf(text string, signature dbus.Signature) (dbus.Variant, error) {
	if text == "-" {
		return dbus.MakeVariant(structures[signature.String()]), nil
	}
	return dbus.ParseVariant(text, signature)
}

// own are the properties that tell a unit from another.
func (u *unit) own() map[string]any {
	state := uint64(u.changed.Microseconds())
	result := map[string]any{
		"Id":                            u.name,
		"Names":                         []string{u.name},
		"Description":                   u.name,
		"LoadState":                     u.load,
		"ActiveState":                   u.active,
		"SubState":                      u.sub,
		"InvocationID":                  u.invocation,
		"Job":                           jobReference{u.job, jobPath(u.job)},
		"MainPID":                       u.mainPID,
		"StateChangeTimestampMonotonic": state,
	}

	if u.load != "loaded" {
		result["FragmentPath"] = ""
		result["UnitFileState"] = ""
	} else {
		result["FragmentPath"] = "/etc/systemd/system/" + u.name
	}

	return result
}

type jobReference struct {
	ID   uint32
	Path dbus.ObjectPath
}

// value is what p is of u, whose own properties those are.
func (p property) of(own map[string]any) dbus.Variant {
	if value, ok := own[p.name]; ok {
		return dbus.MakeVariant(value)
	}
	return p.value
}

// all are the properties of u in an interface, "" for all its interfaces. A
// unit without a file has only the properties of every unit.
func (u *unit) all(name string) map[string]dbus.Variant {
	own := u.own()
	found := map[string]dbus.Variant{}
	for of, properties := range interfaces {
		if name != "" && name != of {
			continue
		}
		for _, p := range properties {
			found[p.name] = p.of(own)
		}
	}
	return found
}

// changed announces to every connection what may have changed of u: first the
// properties of its own type, then the properties of every unit.
func (m *Manager) changed(u *unit) {
	own := u.own()

	for _, name := range []string{
		"org.freedesktop.systemd1.Service", "org.freedesktop.systemd1.Unit",
	} {
		values := map[string]dbus.Variant{}
		invalid := []string{}
		for _, p := range interfaces[name] {
			switch p.tells {
			case "changes":
				values[p.name] = p.of(own)
			case "invalidates":
				invalid = append(invalid, p.name)
			}
		}
		m.emit(u.path(), propertiesInterface+".PropertiesChanged", name, values, invalid)
	}
}
