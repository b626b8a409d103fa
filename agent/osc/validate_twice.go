package osc

import (
	"strings"

	"github.com/loam-os/loam/agent/document"
)

// checkTwice warns of what two entries of one unit contradict each other in:
// the later counts. A list may name a unit several times, each adding
// something; Status overrides Spec; a drop-in is given once.
func checkTwice(report *document.Report, units []located[Unit]) {
	first := map[string]string{}
	once := func(key, at string) {
		if before, twice := first[key]; twice {
			report.Warn(at, "given twice, first at "+before, "keep one of them")
			return
		}
		first[key] = at
	}

	for _, unit := range units {
		value := unit.value
		list, _, _ := strings.Cut(unit.at, "[")
		if value.Content != nil {
			once(list+" content "+value.Name, unit.at+".content")
		}
		if value.Command != nil {
			once(list+" command "+value.Name, unit.at+".command")
		}

		if value.Enable != nil {
			once(list+" enable "+value.Name, unit.at+".enable")
		}

		for i, dropIn := range value.DropIns {
			once("drop-in "+value.Name+" "+dropIn.Name, item(unit.at+".dropIns", i)+".name")
		}
	}
}
