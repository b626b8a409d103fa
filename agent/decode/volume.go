package decode

import (
	"io/fs"
	"slices"

	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/volume"
)

// volumeMount is the unit by which Gardener mounts the data volume.
const volumeMount = "var-lib-kubelet.mount"

// withoutVolumeMount leaves out the unit that mounts the data volume if the
// node has a data volume, or claims one: loam-data-volume.service mounts it,
// with the file system that it has, and only the kubelet waits for it. systemd
// shows the mount as active all the same. root is the node's root directory.
func withoutVolumeMount(root fs.FS, desired config.Desired) (config.Desired, error) {
	at := slices.IndexFunc(desired.Units, func(u config.Unit) bool { return u.Name == volumeMount })
	if at < 0 {
		return desired, nil
	}

	size, err := cluster.DataVolumeSize(desired)
	if err != nil {
		return desired, err
	}
	_, claimed, err := volume.Data.ReadRecord(root)
	if err != nil || (!claimed && size == 0) {
		return desired, err
	}

	desired.Units = slices.Delete(slices.Clone(desired.Units), at, at+1)
	return desired, nil
}
