package apply

import (
	"github.com/loam-os/loam/agent/generation"
)

// memory is what outlives a call of an [Executor]. Everything else is on disk.
type memory struct {
	store   *generation.Store
	catalog *generation.Catalog

	// last is the generation that was current when last seen.
	last    generation.Manifest
	watched watched
	owed    owed

	// reload is set while systemd has not read a repaired unit file yet.
	reload bool
}

// parts are the types that do the work of an [Executor], each with the fields
// that it uses.
type parts struct {
	store     *generation.Store
	running   running
	planner   Planner
	files     files
	units     units
	ledger    Ledger
	changes   changes
	trial     trial
	rollbacks rollbacks
	resumer   resumer
	repairs   repairs
	removal   removal
}

// partsOf returns the parts of e for one call. They share its memory.
func partsOf(e *Executor) parts {
	m := &e.memory
	if m.store == nil {
		m.store = generation.Open(e.State)
	}
	if m.catalog == nil {
		m.catalog = generation.NewCatalog(e.Image)
	}

	p := parts{
		store:   m.store,
		running: running{store: m.store, osVersion: e.OSVersion, last: &m.last},
		ledger:  Ledger{State: e.State, Now: e.Now},
	}

	p.planner = Planner{
		State:     m.store.Reader,
		Node:      e.Node.FS(),
		Image:     e.Image,
		Catalog:   m.catalog,
		Units:     e.Units,
		OSVersion: e.OSVersion,
	}

	p.files = files{
		node:      e.Node.WithImage(e.Image),
		image:     e.Image,
		state:     e.State,
		store:     m.store,
		osVersion: e.OSVersion,
	}

	p.units = units{
		systemd: e.Units,
		node:    e.Node,
		bootID:  e.BootID,
		wait:    e.JobWait,
		limit:   e.Limit,
		uptime:  e.Uptime,
		owed:    owedUnits{state: e.State, running: p.running, cached: &m.owed},
		reload:  &m.reload,
	}

	p.changes = changes{
		store:      m.store,
		candidates: candidates{store: m.store, ledger: p.ledger, osVersion: e.OSVersion},
		planner:    p.planner,
		files:      p.files,
		units:      p.units,
		ledger:     p.ledger,
		osVersion:  e.OSVersion,
		bootID:     e.BootID,
		now:        e.Now,
		uptime:     e.Uptime,
		probes:     e.Probes,
		steady:     e.Steady,
		limit:      e.Limit,
		watched:    &m.watched,
	}

	p.trial = trial{
		store:   m.store,
		changes: p.changes,
		watched: &m.watched,
		systemd: e.Units,
		probes:  e.Probes,
		bootID:  e.BootID,
		uptime:  e.Uptime,
	}

	p.resumer = resumer{
		changes: p.changes,
		running: p.running,
		store:   m.store,
		files:   p.files,
		units:   p.units,
		bootID:  e.BootID,
	}

	p.rollbacks = rollbacks{resumer: p.resumer, changes: p.changes, running: p.running}
	p.repairs = repairs{
		store:   m.store,
		running: p.running,
		files:   p.files,
		units:   p.units,
	}

	p.removal = removal{
		node:    e.Node,
		state:   e.State,
		store:   m.store,
		running: p.running,
		planner: p.planner,
		files:   p.files,
		units:   p.units,
	}

	return p
}
