package local

import (
	"context"

	"github.com/loam-os/loam/agent/plane"
)

// DecodeChange returns the record in text, which is to replace before on the node
// with that store and root directory. It reports what the cluster cannot change,
// and what its etcd cannot, if the node has the programs of the record already.
func DecodeChange(
	ctx context.Context, store plane.Store, root, name string, text []byte, before plane.Record,
) (plane.Record, error) {
	before, err := store.Running(before)
	if err != nil {
		return before, err
	}
	after, err := plane.DecodeChange(name, text, before)
	if err != nil {
		return after, err
	}
	return after, checkEtcd(ctx, store, root, name, text, after)
}

// checkChange reports what the cluster cannot change, in the record that the node has:
// an operator may have edited it.
func checkChange(store plane.Store, name string, text []byte, r plane.Record) error {
	before, err := store.Running(r)
	if err != nil {
		return err
	}
	return plane.CheckChange(name, text, before)
}

// checkEtcd reports why the etcd of a record cannot take over the data of the one
// that runs. A node without the programs of the record checks again when it has
// fetched them.
func checkEtcd(
	ctx context.Context, store plane.Store, root, name string, text []byte, r plane.Record,
) error {
	started, err := lastStarted(ctx, store, root)
	if err != nil || started == nil || started.Ran(r, programsDir(r)) {
		return err
	}
	version, err := etcdVersion(ctx, root, r)
	if err != nil || version == "" {
		return err
	}
	return plane.CheckEtcd(name, text, *started, version)
}
