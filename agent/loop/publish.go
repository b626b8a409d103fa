package loop

import (
	"reflect"

	"github.com/loam-os/loam/agent/status"
)

// publisher publishes the status, once for each change.
type publisher struct {
	cluster  Cluster
	jobs     *Jobs
	network  Watched[status.Network]
	upgrades Watched[status.Upgrade]
	own      Watched[status.OwnCluster]
	host     Host

	// last is what was published last; it is zero before any was.
	last status.Status
	any  bool
	// unwritten says that it could not be written.
	unwritten bool

	// told are the problems that were news.
	told told
}

// publish adds to a status what others observe, and publishes it if it is
// another than the last.
func (p *publisher) publish(s status.Status) {
	p.addWatched(&s)
	s.Health, s.Reason = s.Assess()
	if p.cluster != nil && p.jobs != nil {
		p.jobs.Report(p.cluster.Event)
	}
	if p.any && !p.unwritten && reflect.DeepEqual(s, p.last) {
		return
	}

	news := p.told.isNews(s)
	news = news || !p.any || isNews(s, p.last)
	p.last = s
	p.any = true
	s.Uptime = status.Duration(p.host.Uptime())
	if p.cluster != nil {
		p.cluster.Report(s)
	}
	p.unwritten = p.host.Publish(s, news) != nil
}

// addWatched adds to a status what others observe.
func (p *publisher) addWatched(s *status.Status) {
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
