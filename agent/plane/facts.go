package plane

import (
	"errors"
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/durable"
)

// facts are of this node alone, unlike the record.
type facts struct {
	// dir is the root directory of the node.
	dir *durable.Dir
}

// Address returns the address that the cluster last used for the node, the zero
// Addr before the first.
func (s facts) Address() (netip.Addr, error) {
	text, err := s.dir.Root().ReadFile(addressFile[1:])
	if errors.Is(err, fs.ErrNotExist) {
		return netip.Addr{}, nil
	}
	if err != nil {
		return netip.Addr{}, err
	}

	// Another address is chosen for one that cannot be read.
	address, _ := netip.ParseAddr(strings.TrimSpace(string(text)))
	return address, nil
}

// WriteAddress replaces the address, durably.
func (s facts) WriteAddress(address netip.Addr) error {
	_, err := s.dir.WriteFile(addressFile[1:], []byte(address.String()+"\n"), 0o600)
	return err
}

// FsyncP99 returns the 99th percentile of the time of a sync of etcd's disk before the
// cluster was made, 0 if it is not known: an earlier release has made the cluster.
func (s facts) FsyncP99() (time.Duration, error) {
	text, err := s.dir.Root().ReadFile(fsyncFile[1:])
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}

	// etcd works with its own timing, too.
	p99, _ := time.ParseDuration(strings.TrimSpace(string(text)))
	return max(p99, 0), nil
}

// WriteFsyncP99 replaces what was measured of the disk, durably. It must be called
// before the cluster is made, since etcd restarts if its flags change.
func (s facts) WriteFsyncP99(p99 time.Duration) error {
	if err := s.dir.MkdirAll(StateDirectory[1:]); err != nil {
		return err
	}
	_, err := s.dir.WriteFile(fsyncFile[1:], []byte(p99.String()+"\n"), 0o600)
	return err
}

// Started returns what last served from the data of etcd, nil if that is not known:
// etcd has not started yet, or an earlier release has started it.
func (s facts) Started() (*Started, error) {
	text, err := s.dir.Root().ReadFile(startedFile[1:])
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	kubernetes := startedKubernetes.FindSubmatch(text)
	etcd, err := ParseEtcdVersion(text)
	if kubernetes == nil || !version.Match(kubernetes[1]) || err != nil {
		return nil, nil // A power cut has damaged it.
	}
	started := &Started{Kubernetes: string(kubernetes[1]), Etcd: etcd}
	if programs := startedPrograms.FindSubmatch(text); programs != nil {
		started.Programs = string(programs[1])
	}
	return started, nil
}

// KeepProven records, durably, that what last served from the data of etcd is not on
// trial. The unit of etcd reads it.
func (s facts) KeepProven() error {
	started, err := s.dir.Root().ReadFile(startedFile[1:])
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}

	unlock, err := lock(s.dir)
	if err != nil {
		return err
	}
	_, err = s.dir.WriteFile(provenFile[1:], started, 0o600)
	return errors.Join(err, unlock())
}
