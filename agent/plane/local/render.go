package local

import (
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/plane"
)

// parts are the records that a configuration is made of: the settings and the
// programs of one, the images of one, and etcd of one.
type parts struct{ settings, images, etcd plane.Record }

// all are the parts of one record.
func all(r plane.Record) parts { return parts{r, r, r} }

// renderer makes the configuration of a node: what [plane.Render] makes of a record,
// with what runs pods.
type renderer struct {
	store plane.Store

	// node is the host name.
	node string

	addresses    addresses
	bundles      *bundles
	certificates certificates
	containerd   *containerd
}

// issue returns the configuration of these parts, and issues the certificates that
// are due.
func (r renderer) issue(p parts) (config.Desired, error) {
	return r.render(p, r.certificates.desired)
}

// preview is issue with the certificates that are there. It writes nothing.
func (r renderer) preview(p parts) (config.Desired, error) {
	return r.render(p, r.store.Preview)
}

// render returns the configuration of these parts, of which controlPlane makes the
// control plane.
func (r renderer) render(
	p parts, controlPlane func(plane.Record, plane.Member) (config.Desired, error),
) (config.Desired, error) {
	address, err := r.addresses.choose(p.settings)
	if err != nil {
		return config.Desired{}, err
	}
	programs, err := r.bundles.open(p.images)
	if err != nil {
		return config.Desired{}, err
	}
	p99, err := r.store.FsyncP99()
	if err != nil {
		return config.Desired{}, err
	}

	desired, err := controlPlane(p.settings, plane.Member{
		Name:     r.node,
		Address:  address,
		FsyncP99: p99,
		Programs: programsDir(p.settings),
		Etcd:     programsDir(p.etcd),
	})
	if err != nil {
		return config.Desired{}, err
	}

	base, err := r.containerd.observe()
	if err != nil {
		return config.Desired{}, err
	}
	return withRuntime(desired, p.settings, programs, base)
}
