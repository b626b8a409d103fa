package apply

import (
	"github.com/loam-os/loam/agent/generation"
)

// parts are the types that do the work of an [Executor], each with the fields
// that it uses. What they remember they share by pointers; everything else is on
// disk.
type parts struct {
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

// newParts returns the parts of an executor that remembers nothing.
func newParts(c Config) parts {
	store := generation.Open(c.State)
	watching := new(watched)

	p := parts{
		running: running{store: store, osVersion: c.OSVersion, last: new(generation.Manifest)},
		ledger:  Ledger{State: c.State, Now: c.Now},
	}

	p.planner = Planner{
		State:     store.Reader,
		Node:      c.Node.FS(),
		Image:     c.Image,
		Catalog:   generation.NewCatalog(c.Image),
		Units:     c.Units,
		OSVersion: c.OSVersion,
	}

	p.files = files{
		node:      c.Node.WithImage(c.Image),
		image:     c.Image,
		state:     c.State,
		store:     store,
		osVersion: c.OSVersion,
	}

	p.units = units{
		systemd: c.Units,
		node:    c.Node,
		bootID:  c.BootID,
		wait:    c.JobWait,
		limit:   c.Limit,
		uptime:  c.Uptime,
		owed:    owedUnits{state: c.State, running: p.running, cached: new(owed)},
		reload:  new(bool),
	}

	p.changes = changes{
		store:      store,
		candidates: candidates{store: store, ledger: p.ledger, osVersion: c.OSVersion},
		planner:    p.planner,
		files:      p.files,
		units:      p.units,
		ledger:     p.ledger,
		osVersion:  c.OSVersion,
		bootID:     c.BootID,
		now:        c.Now,
		uptime:     c.Uptime,
		probes:     c.Probes,
		steady:     c.Steady,
		limit:      c.Limit,
		watched:    watching,
	}

	p.trial = trial{
		store:   store,
		changes: p.changes,
		watched: watching,
		systemd: c.Units,
		probes:  c.Probes,
		bootID:  c.BootID,
		uptime:  c.Uptime,
	}

	p.resumer = resumer{
		changes: p.changes,
		running: p.running,
		store:   store,
		files:   p.files,
		units:   p.units,
		bootID:  c.BootID,
	}

	p.rollbacks = rollbacks{resumer: p.resumer, changes: p.changes, running: p.running}
	p.repairs = repairs{
		store:   store,
		running: p.running,
		files:   p.files,
		units:   p.units,
	}

	p.removal = removal{
		node:    c.Node,
		state:   c.State,
		store:   store,
		running: p.running,
		planner: p.planner,
		files:   p.files,
		units:   p.units,
	}

	return p
}
