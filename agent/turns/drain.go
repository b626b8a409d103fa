package turns

import (
	"time"

	"github.com/loam-os/loam/agent/document"
)

// Drain is how a node is drained. The fields are named as the flags of kubectl
// drain.
type Drain struct {
	// Timeout is after how long a change is postponed.
	Timeout time.Duration

	// Force evicts also pods that no controller creates again.
	Force bool

	// DeleteEmptyDirData evicts also pods with an emptyDir.
	DeleteEmptyDirData bool
}

// defaultDrain is over long before a turn is overdue. It keeps pods that nothing
// would bring back; data in an emptyDir is lost with every other eviction, too.
func defaultDrain(overdue map[Class]time.Duration) Drain {
	return Drain{
		Timeout:            min(10*time.Minute, overdue[Pods]/2, overdue[Reboot]/2),
		DeleteEmptyDirData: true,
	}
}

type writtenDrain struct {
	Timeout            string `json:"timeout"`
	Force              bool   `json:"force"`
	DeleteEmptyDirData *bool  `json:"deleteEmptyDirData"`
}

func (w writtenDrain) read(report *document.Report, overdue map[Class]time.Duration) Drain {
	drain := defaultDrain(overdue)
	drain.Force = w.Force
	if w.DeleteEmptyDirData != nil {
		drain.DeleteEmptyDirData = *w.DeleteEmptyDirData
	}
	if w.Timeout == "" {
		return drain
	}

	if d, ok := report.Duration("drain.timeout", w.Timeout, time.Second); ok {
		drain.Timeout = d
	}
	return drain
}

// checkDrain reports a drain that would count as a failure before it is
// postponed.
func (p Policy) checkDrain(report *document.Report) {
	for _, class := range []Class{Pods, Reboot} {
		if overdue := p.Overdue[class]; p.Drain.Timeout >= overdue {
			report.Addf("drain.timeout", "write less than overdue."+class.String(),
				"is %s, and overdue.%s %s", p.Drain.Timeout, class, overdue)
			return
		}
	}
}
