package local

import "time"

// checkInterval is the time between two looks for certificates to renew, which
// have months left.
const checkInterval = time.Hour

// merge notifies of the changes of all, and from time to time, until one of them
// ends.
func merge(changes chan<- struct{}, record, network, again <-chan struct{}) {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()

	for ok := true; ok; {
		select {
		case _, ok = <-record:
		case _, ok = <-network:
		case <-again:
		case <-tick.C:
		}

		notify(changes)
	}
}

// notify sends a value, unless one is waiting already: who receives it looks at all
// that has changed.
func notify(changes chan<- struct{}) {
	select {
	case changes <- struct{}{}:
	default:
	}
}
