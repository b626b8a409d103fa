package systemdmodel_test

import (
	"fmt"
	"strings"

	"github.com/loam-os/loam/agent/config"
)

// once is a oneshot that counts its runs: systemd forgets a finished oneshot
// that nothing wants, with its invocation.
const once = "[Service]\nType=oneshot\nExecStart=sh -c 'echo >>/run/pairs-ran-%n'\n"

// environment is nothing, or a setting that reads a file which may be managed.
func (w *scenario) environment() string {
	if w.dice.one(3) {
		return "EnvironmentFile=-/etc/pairs/" + w.dice.pick("env", "%i.env") + "\n"
	}
	return ""
}

// reloads is nothing, or settings of a service that is reloaded if only files
// change, and counts it.
func (w *scenario) reloads() (unit, service string) {
	if w.dice.one(3) {
		return "[Unit]\nX-ReloadIfChanged=true\n", "ExecReload=sh -c 'echo >>/run/pairs-%n'\n"
	}
	return "", ""
}

func (w *scenario) service(name string) part {
	unit, reload := w.reloads()
	content := unit + "[Service]\nExecStart=sleep infinity\n" + reload + w.environment()
	if w.dice.one(3) {
		content += "Slice=pairs.slice\n"
	}

	content += "[Install]\nWantedBy=" + w.dice.pick("multi-user.target", "basic.target") + "\n"
	if name == "s0.service" && w.dice.one(2) {
		content += "Alias=s0-alias.service\n"
	}
	if name == "s1.service" && w.dice.one(4) {
		content += "RequiredBy=s3.service\n"
	}

	p := w.own(name, content)
	if name != "s0.service" && w.dice.one(2) {
		// Only on units that come before it, so that there is no cycle.
		var before []string
		for i := range name[1] - '0' {
			before = append(before, fmt.Sprintf("s%d.service", i))
		}
		p.needs = w.dice.pick("Requires",
			"BindsTo", "PartOf") + "=" + w.dice.pick(append(before, "g.target", "o0.service")...)
	}

	return p
}

func (w *scenario) oneshot(name string) part {
	content := once + w.environment()
	if name == "o0.service" {
		content += "RemainAfterExit=yes\n"
	}
	return w.own(name, content+"[Install]\nWantedBy=multi-user.target\n")
}

func (w *scenario) template(name string) part {
	p := w.listed(name)
	p.unit.FilePaths = nil
	p.unit.Content = text(fmt.Sprintf(
		"# %d\n[Service]\nExecStart=sleep infinity\n%s[Install]\nWantedBy=multi-user.target\n",
		w.dice.IntN(2),
		w.environment(),
	))
	return p
}

func (w *scenario) trigger(name string) part {
	content := map[string]string{
		"c.timer": fmt.Sprintf("[Timer]\nOnActiveSec=%dd\n[Install]\nWantedBy=timers.target\n",
			1+w.dice.IntN(2)),
		"k.socket": "[Socket]\nListenStream=/run/pairs.sock\nFlushPending=yes\n[Install]\nWantedBy=sockets.target\n",
		"p.path":   "[Path]\nPathChanged=/run/pairs-touched\n[Install]\nWantedBy=paths.target\n",
	}[name]
	p := w.own(name, content)
	p.unit.DropIns = nil
	return p
}

// triggered is on demand, but for some that are wanted besides.
func (w *scenario) triggered(name string) part {
	content := "[Service]\nExecStart=sleep infinity\n" + w.environment()
	if name == "c.service" && w.dice.one(2) {
		content = once
	}
	if w.dice.one(4) {
		content += "[Install]\nWantedBy=multi-user.target\n"
	}
	return w.own(name, content)
}

func (w *scenario) target(name string) part {
	p := w.own(name, "[Install]\nWantedBy=multi-user.target\n")
	p.unit.DropIns = nil
	return p
}

func (w *scenario) slice(name string) part {
	content := fmt.Sprintf("[Slice]\nTasksMax=%d\n", 100+w.dice.IntN(2))
	return part{unit: config.Unit{
		Name:      name,
		Content:   &content,
		FilePaths: w.dice.some(worldFiles[:2]...),
	}}
}

// vendor is a unit of the image: journald, which needs no enabling, and a timer
// that the image does not enable.
func (w *scenario) vendor(name string) part {
	p := w.listed(name)
	if strings.HasSuffix(name, ".timer") {
		p.unit.DropIns = nil
		if w.dice.one(2) {
			p.unit.DropIns = []config.DropIn{{
				Name:    "10-a.conf",
				Content: "[Timer]\nAccuracySec=" + w.dice.pick("1h", "2h") + "\n",
			}}
		}
		no := false
		if w.dice.one(4) {
			p.unit.Enable = &no
		}
	} else if w.dice.one(5) {
		p.unit.Command = config.CommandRestart
	}

	return p
}
