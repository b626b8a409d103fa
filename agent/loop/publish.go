package loop

import (
	"reflect"

	"github.com/loam-os/loam/agent/status"
)

// Published is what operators were shown last. It is zero before anything was.
type Published struct {
	Any  bool
	Last status.Status
	// Unwritten says that Last could not be written.
	Unwritten bool
	// Told are the problems that were news.
	Told told
}

// publisher publishes the status, once for each change.
type publisher struct {
	cluster  Cluster
	jobs     *Jobs
	network  Watched[status.Network]
	upgrades Watched[status.Upgrade]
	own      Watched[status.OwnCluster]
	host     Host
}

// publish adds to a status what others observe, and publishes it if it is
// another than the last. It returns what is published then.
func (p publisher) publish(s status.Status, last Published) Published {
	p.addWatched(&s)
	s.Health, s.Reason = s.Assess()
	if p.cluster != nil && p.jobs != nil {
		p.jobs.Report(p.cluster.Event)
	}
	if last.Any && !last.Unwritten && reflect.DeepEqual(s, last.Last) {
		return last
	}

	now := Published{Any: true, Last: s, Told: last.Told}
	news := now.Told.isNews(s)
	news = news || !last.Any || isNews(s, last.Last)
	s.Uptime = status.Duration(p.host.Uptime())
	if p.cluster != nil {
		p.cluster.Report(s)
	}
	now.Unwritten = p.host.Publish(s, news) != nil
	return now
}

// addWatched adds to a status what others observe.
func (p publisher) addWatched(s *status.Status) {
	if p.cluster != nil {
		link := p.cluster.Link()
		s.Cluster = &link
	}
	if p.network != nil {
		s.Network = p.network.State()
	}
	if p.upgrades != nil {
		s.Upgrade = p.upgrades.State()
	}
	if p.own != nil {
		s.OwnCluster = p.own.State()
	}
}
