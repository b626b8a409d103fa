package cluster_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"sync"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/agent/unit"
)

// etcdVersion is the etcd of all bundles.
const etcdVersion = "3.7.3"

// etcdMade is the file of etcd's data in which [units] keeps the identity of the cluster
// that has made it.
const etcdMade = "var/lib/private/etcd/member/identity"

const etcdService = "etcd.service"

// units is systemd with programs that all come up, except for etcd: it refuses data of
// other keys and certificates of another authority, as the real one does.
type units struct {
	node *clusterNode
	// mu is held while a job runs: the engine asks for several at once.
	mu      sync.Mutex
	running map[string]bool
	// mark is told of every job before it is done.
	mark func(string)
}

// boot starts the programs of the current generation.
func (u *units) boot() error {
	text, err := u.text(etcdService)
	if text == "" || err != nil {
		return err
	}
	return u.Start(context.Background(), etcdService)
}

// text returns the text of a unit of the current generation, "" if there is none.
func (u *units) text(name string) (string, error) {
	store := generation.Read(u.node.state.FS())
	m, ok, err := store.Current(osVersion)
	if !ok || errors.Is(err, generation.ErrIncomplete) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, e := range m.Entries {
		if e.Path != "/etc/systemd/system/"+name || e.Kind != generation.KindFile {
			continue
		}
		in, err := store.Open(e)
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(in)
		return string(text), errors.Join(err, in.Close())
	}
	return "", nil
}

// Start implements [apply.Units].
func (u *units) Start(_ context.Context, name string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.running[name] {
		return nil
	}
	return u.run("start", name)
}

// Restart implements [apply.Units].
func (u *units) Restart(_ context.Context, name string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.run("restart", name)
}

func (u *units) run(verb, name string) error {
	if u.mark != nil {
		u.mark(verb + " " + name)
	}
	if name == etcdService {
		if err := u.startEtcd(); err != nil {
			return fmt.Errorf("%s %s: %w", verb, name, err)
		}
	}
	u.running[name] = true
	return nil
}

var startedOf = regexp.MustCompile(`echo (Kubernetes \S+) && echo (Programs \S+) &&`)

// startEtcd does what the unit of etcd does: it reads its certificates, opens its data or
// makes them, and keeps what has served. All of that is on the disk when it serves.
func (u *units) startEtcd() error {
	n := u.node
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

	text, err := u.text(etcdService)
	if err != nil {
		return err
	}
	lines := startedOf.FindStringSubmatch(text)
	if lines == nil {
		return fmt.Errorf("its unit does not keep what has started:\n%s", text)
	}
	started := lines[1] + "\n" + lines[2] + "\netcd Version: " + etcdVersion + "\n"
	_, err = dir.WriteFile(plane.StateDirectory[1:]+"/started", []byte(started), 0o600)
	return err
}

// Reload implements [apply.Units].
func (u *units) Reload(context.Context) error { return nil }

// Stop implements [apply.Units].
func (u *units) Stop(_ context.Context, name string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.running, name)
	return nil
}

// ReloadUnit implements [apply.Units].
func (u *units) ReloadUnit(context.Context, string) error { return nil }

// ResetFailed implements [apply.Units].
func (u *units) ResetFailed(context.Context, string) {}

// Show implements [apply.Units].
func (u *units) Show(_ context.Context, names []string) ([]unit.State, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var states []unit.State
	for _, name := range names {
		state := unit.State{Name: name, Active: "inactive"}
		if u.running[name] {
			state.Active = "active"
		}
		states = append(states, state)
	}
	return states, nil
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
