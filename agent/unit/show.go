package unit

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/godbus/dbus/v5"
)

// Show is the state of each unit named, in that order. A unit that systemd
// does not know has Load "not-found".
func (s *Systemd) Show(ctx context.Context, names []string) ([]State, error) {
	states := make([]State, 0, len(names))
	for _, name := range names {
		state, err := s.show(ctx, name)
		if err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	return states, nil
}

func (s *Systemd) show(ctx context.Context, name string) (State, error) {
	all, err := s.conn.GetAllPropertiesContext(ctx, name)
	if err != nil {
		return State{Name: name}, fmt.Errorf("show %s: %w", name, err)
	}
	return stateOf(name, all), nil
}

// stateOf reads the properties that org.freedesktop.systemd1(5) lists for
// units and services. One that is missing leaves its field empty.
func stateOf(name string, all map[string]any) State {
	p := properties(all)
	return State{
		Name: name, ID: p.text("Id"), Load: p.text("LoadState"), Active: p.text("ActiveState"), Sub: p.text("SubState"),
		File: p.text("UnitFileState"), Type: p.text("Type"), InvocationID: p.id("InvocationID"),
		FragmentPath: p.text("FragmentPath"), DropInPaths: p.texts("DropInPaths"),
		NeedDaemonReload: p.flag("NeedDaemonReload"), Result: p.text("Result"),
		ExitCode: int(p.signed("ExecMainStatus")), MainPID: int(p.unsigned("MainPID")), Job: p.job(),
		Restarts: int(p.unsigned("NRestarts")), BoundBy: slices.Concat(p.texts("RequiredBy"), p.texts("RequisiteOf"), p.texts("BoundBy"), p.texts("ConsistsOf")),
		Skipped: p.long("ConditionTimestampMonotonic") > 0 && !p.flag("ConditionResult"),
		Since:   time.Duration(p.long("StateChangeTimestampMonotonic")) * time.Microsecond,
	}
}

type properties map[string]any

func (p properties) text(key string) string     { v, _ := p[key].(string); return v }
func (p properties) texts(key string) []string  { v, _ := p[key].([]string); return v }
func (p properties) flag(key string) bool       { v, _ := p[key].(bool); return v }
func (p properties) signed(key string) int32    { v, _ := p[key].(int32); return v }
func (p properties) unsigned(key string) uint32 { v, _ := p[key].(uint32); return v }
func (p properties) long(key string) uint64     { v, _ := p[key].(uint64); return v }

// id is a 128-bit id in hex, "" if it was never set.
func (p properties) id(key string) string {
	raw, _ := p[key].([]byte)
	for _, b := range raw {
		if b != 0 {
			return hex.EncodeToString(raw)
		}
	}
	return ""
}

// job reports whether the unit has a job: Job is (id, path), id 0 for none.
func (p properties) job() bool {
	pair, _ := p["Job"].([]any)
	if len(pair) != 2 {
		return false
	}
	id, _ := pair[0].(uint32)
	path, _ := pair[1].(dbus.ObjectPath)
	return id != 0 && path != "/"
}
