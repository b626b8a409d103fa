package cluster_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"sync"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/test/units"
)

// etcdVersion is the etcd of all bundles.
const etcdVersion = "3.7.3"

// etcdMade is the file of etcd's data in which [clusterSystemd] keeps the identity of
// the cluster that has made it.
const etcdMade = "var/lib/private/etcd/member/identity"

const etcdService = "etcd.service"

// clusterSystemd is a systemd whose programs all come up, except for etcd: it refuses
// data of other keys and certificates of another authority, as the real one does.
type clusterSystemd struct {
	*units.Fake
	node *clusterNode
	// mu is held while a job runs: the engine asks for several at once, and they are
	// recorded one after the other.
	mu sync.Mutex
	// mark is told of every start and restart before it is done.
	mark func(string)
}

func newClusterSystemd(n *clusterNode) *clusterSystemd {
	s := &clusterSystemd{
		Fake: &units.Fake{Texts: units.Files(n.root.Name(), n.image.Name())},
		node: n,
	}
	s.Around = s.job
	s.Run = s.run
	return s
}

func (s *clusterSystemd) job(_ context.Context, job units.Job, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mark != nil && (job.Verb == "start" || job.Verb == "restart") {
		s.mark(job.String())
	}
	return do()
}

// startPrograms starts the programs of the current generation.
func (s *clusterSystemd) startPrograms() error {
	if _, known := s.Text(etcdService); !known {
		return nil
	}
	return s.Start(context.Background(), etcdService)
}

// run is every program.
func (s *clusterSystemd) run(name, text string) error {
	if name == etcdService {
		return s.runEtcd(text)
	}
	return nil
}

var startedOf = regexp.MustCompile(`echo (Kubernetes \S+) && echo (Programs \S+) &&`)

// runEtcd does what etcd and the unit with that text do: they read the certificates, open
// the data or make them, and keep what has served. All of that is on the disk when etcd
// serves.
func (s *clusterSystemd) runEtcd(text string) error {
	n := s.node
	found, err := examine(n)
	if err != nil {
		return err
	}
	if err := found.checkLeaves(n.now, pki.EtcdServer, pki.EtcdPeer); err != nil {
		return err
	}

	dir := n.dir()
	if found.data == "" {
		if err := dir.MkdirAll(path.Dir(etcdMade)); err != nil {
			return err
		}
		if _, err := dir.WriteFile(etcdMade, []byte(found.identity), 0o600); err != nil {
			return err
		}
	} else if found.data != found.identity {
		return errors.New("its data is of a cluster with other keys")
	}

	lines := startedOf.FindStringSubmatch(text)
	if lines == nil {
		return fmt.Errorf("its unit does not keep what has started:\n%s", text)
	}
	started := lines[1] + "\n" + lines[2] + "\netcd Version: " + etcdVersion + "\n"
	_, err = dir.WriteFile(plane.StateDirectory[1:]+"/started", []byte(started), 0o600)
	return err
}

// identity returns what makes a cluster this one: a sum of its authorities and keys. It
// is "" if there are none.
func identity(n *clusterNode) (string, error) {
	dir := path.Join(plane.KeysDirectory[1:], "authorities")
	entries, err := fs.ReadDir(n.root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}

	sum := sha256.New()
	for _, e := range entries {
		text, err := n.root.ReadFile(path.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n", e.Name(), len(text))
		sum.Write(text)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}
