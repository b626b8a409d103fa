package osc

import (
	"strings"

	"github.com/loam-os/loam/agent/document"
)

// checkTwice warns if two entries of one unit contradict each other; the later
// one counts. A list may have a unit several times, if each entry adds
// something. Status overrides Spec. A drop-in must be unique.
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
