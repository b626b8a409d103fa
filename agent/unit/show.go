package unit

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

// Show returns the state of each unit in names, in that order. A unit that
// systemd does not know has Load "not-found".
//
// All units are listed in one call. Details are only requested for units with
// signals since they were last shown. systemd signals every change of a
// property in State before it answers the next call
// (manager_dispatch_dbus_queue in systemd's manager.c). Properties without
// signals come from a unit's file, and change only with a reload.
func (s *Systemd) Show(ctx context.Context, names []string) ([]State, error) {
	if len(names) == 0 {
		return nil, nil
	}

	listed, err := s.list(ctx, names)
	if err != nil {
		return nil, err
	}

	states := make([]State, len(names))
	var asked []*asking
	for i, name := range names {
		known, ok := s.signals.recall(listed[i].Path)
		if ok && listed[i].fits(known) {
			states[i] = known
			states[i].Name = name
			continue
		}
		asked = append(asked, s.ask(ctx, name, listed[i].Path, &states[i]))
	}

	var errs []error
	for _, a := range asked {
		errs = append(errs, a.finish())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}

	return states, nil
}

// listing is an entry of ListUnitsByNames.
type listing struct {
	Name, Description, Load, Active, Sub, Following string
	Path                                            dbus.ObjectPath
	JobID                                           uint32
	JobType                                         string
	JobPath                                         dbus.ObjectPath
}

// fits reports whether a state agrees with the listing.
func (l listing) fits(s State) bool {
	return l.Load == s.Load && l.Active == s.Active && l.Sub == s.Sub && (l.JobID != 0) == s.Job
}

// list lists the units called names; systemd loads those it has not.
func (s *Systemd) list(ctx context.Context, names []string) ([]listing, error) {
	var listed []listing
	err := s.manager.CallWithContext(ctx, manager+".ListUnitsByNames", 0, names).Store(&listed)
	if err != nil {
		return nil, fmt.Errorf("list units: %w", err)
	}

	if len(listed) != len(names) { // systemd leaves out invalid names of units.
		return nil, fmt.Errorf("list units: systemd knows %d of %d names: %s",
			len(listed), len(names), strings.Join(names, ", "))
	}

	return listed, nil
}

// IsToldToStop reports whether systemd has a job that stops a unit, as at a
// shutdown: whatever its Restart=, the unit is not started again.
func (s *Systemd) IsToldToStop(ctx context.Context, name string) (bool, error) {
	listed, err := s.list(ctx, []string{name})
	if err != nil {
		return false, err
	}
	return listed[0].JobType == "stop", nil
}

// asking is a pending call for all properties of a unit, and where the state
// goes.
type asking struct {
	signals *signals
	showing *showing
	name    string
	call    *dbus.Call
	state   *State
}

// ask requests a unit's properties without waiting for the reply.
func (s *Systemd) ask(
	ctx context.Context, name string, path dbus.ObjectPath, state *State,
) *asking {
	a := &asking{
		signals: s.signals,
		showing: s.signals.begin(path),
		name:    name,
		state:   state,
	}
	a.call = s.conn.Object(service, path).GoWithContext(ctx,
		"org.freedesktop.DBus.Properties.GetAll", 0, nil, "")
	return a
}

// finish waits for the reply.
func (a *asking) finish() error {
	<-a.call.Done
	all, err := propertiesOf(a.call)
	if err != nil {
		a.signals.finish(a.showing, nil)
		return fmt.Errorf("show %s: %w", a.name, err)
	}

	*a.state = stateOf(a.name, all)
	a.signals.finish(a.showing, a.state)
	return nil
}

// propertiesOf returns the reply of GetAll, without the copy of each value that
// Store makes.
func propertiesOf(call *dbus.Call) (map[string]dbus.Variant, error) {
	if call.Err != nil {
		return nil, call.Err
	}
	if len(call.Body) == 1 {
		if all, ok := call.Body[0].(map[string]dbus.Variant); ok {
			return all, nil
		}
	}
	return nil, errors.New("systemd's answer is no list of properties")
}

// stateOf reads the properties that org.freedesktop.systemd1(5) lists for units
// and services. A missing property leaves its field empty.
func stateOf(name string, all map[string]dbus.Variant) State {
	p := properties(all)

	return State{
		Name:         name,
		ID:           p.text("Id"),
		Load:         p.text("LoadState"),
		Active:       p.text("ActiveState"),
		Sub:          p.text("SubState"),
		Type:         p.text("Type"),
		InvocationID: p.id("InvocationID"),
		FragmentPath: p.text("FragmentPath"),
		DropInPaths:  p.texts("DropInPaths"),
		Result:       p.text("Result"),
		ExitCode:     int(p.signed("ExecMainStatus")),
		Job:          p.job(),
		Restarts:     int(p.unsigned("NRestarts")),
		StartLimit:   p.limit("TimeoutStartUSec"),
		BoundBy: slices.Concat(p.texts("RequiredBy"), p.texts("RequisiteOf"),
			p.texts("BoundBy"), p.texts("ConsistsOf")),
		Skipped: p.long("ConditionTimestampMonotonic") > 0 && !p.flag("ConditionResult"),
		Since:   time.Duration(p.long("StateChangeTimestampMonotonic")) * time.Microsecond,
	}
}

type properties map[string]dbus.Variant

func (p properties) text(key string) string     { v, _ := p[key].Value().(string); return v }
func (p properties) texts(key string) []string  { v, _ := p[key].Value().([]string); return v }
func (p properties) flag(key string) bool       { v, _ := p[key].Value().(bool); return v }
func (p properties) signed(key string) int32    { v, _ := p[key].Value().(int32); return v }
func (p properties) unsigned(key string) uint32 { v, _ := p[key].Value().(uint32); return v }
func (p properties) long(key string) uint64     { v, _ := p[key].Value().(uint64); return v }

// limit returns a time in microseconds, in which systemd says "infinity" by the
// largest number.
func (p properties) limit(key string) time.Duration {
	if limit := p.long(key); limit <= math.MaxInt64/uint64(time.Microsecond) {
		return time.Duration(limit) * time.Microsecond
	}
	return 0
}

// id returns a 128-bit ID in hex, "" if it was never set.
func (p properties) id(key string) string {
	raw, _ := p[key].Value().([]byte)
	for _, b := range raw {
		if b != 0 {
			return hex.EncodeToString(raw)
		}
	}
	return ""
}

// job reports whether the unit has a job: Job is (ID, path), with ID 0 for
// none.
func (p properties) job() bool {
	pair, _ := p["Job"].Value().([]any)
	if len(pair) != 2 {
		return false
	}
	id, _ := pair[0].(uint32)
	path, _ := pair[1].(dbus.ObjectPath)
	return id != 0 && path != "/"
}
