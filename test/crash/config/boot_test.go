package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
)

// crashImage is the image of all crash tests. It is not changed.
func crashImage(t testing.TB) *os.Root {
	t.Helper()
	dir := scratch(t)
	put := func(name, text string) {
		err := errors.Join(
			os.MkdirAll(path.Dir(dir+"/"+name), 0o755),
			os.WriteFile(dir+"/"+name, []byte(text), 0o644),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	put(
		"usr/lib/systemd/system/containerd.service",
		"[Service]\nEnvironmentFile=/etc/default/containerd\n[Install]\nWantedBy=multi-user.target\n",
	)
	put("usr/lib/systemd/system/systemd-journald.service", "[Service]\n")
	put("usr/lib/systemd/system/plain.service",
		"[Service]\n[Install]\nWantedBy=multi-user.target\n")
	put("etc/issue", "of the image\n")
	put("etc/default/containerd", "A=image\n")
	for link, target := range map[string]string{
		"etc/localtime": "/usr/share/zoneinfo/UTC",
		"opt":           "var/opt",
		"usr/lib/systemd/system/multi-user.target.wants/containerd.service":       "../containerd.service",
		"usr/lib/systemd/system/multi-user.target.wants/systemd-journald.service": "../systemd-journald.service",
	} {
		err := errors.Join(
			os.MkdirAll(path.Dir(dir+"/"+link), 0o755), os.Symlink(target, dir+"/"+link),
		)
		if err != nil {
			t.Fatal(err)
		}
	}

	return openRoot(t, dir)
}

// powerOn is what /init does of a boot that bears on the configuration
// (agent/boot, buildEtc), and then systemd's part. /etc and /run are empty.
func (n *crashNode) powerOn() error {
	n.boots++
	root := durable.New(n.root, n.hook(""))
	if err := errors.Join(n.copyEtc(root), root.MkdirAll("run/loam")); err != nil {
		return err
	}

	_, err := root.Symlink(generation.CurrentTarget(n.root.FS(), crashVersion), generation.Link[1:])
	if err != nil {
		return err
	}

	store := generation.Open(durable.New(n.state, n.hook(stateDir)))
	if err := n.goBack(store); err != nil {
		return err
	}
	if err := n.fillEtc(root, store.Reader); err != nil {
		return err
	}

	n.systemd.boot()
	return nil
}

func (n *crashNode) goBack(store *generation.Store) error {
	current, ok, err := store.Current(crashVersion)
	if errors.Is(err, generation.ErrIncomplete) || (err == nil && !ok) {
		return nil // /init goes on without a configuration.
	}
	if err != nil {
		return err
	}

	j, ok, err := store.Journal()
	if err != nil || !ok {
		return err
	}

	next, back := j.AtBoot(n.bootID(), current.Name())
	if next.Boots == j.Boots {
		return nil
	}
	if err := store.WriteJournal(next); err != nil || !back {
		return err
	}

	return store.Activate(crashVersion, next.To)
}

func (n *crashNode) fillEtc(dir *durable.Dir, store generation.Reader) error {
	m, ok, err := store.Current(crashVersion)
	if !ok {
		return nil
	}
	if err != nil {
		return err
	}

	for _, p := range generation.Place(m) {
		if strings.HasPrefix(p.Path, "/etc/") {
			_, _ = generation.Put(dir, p, store) // /init goes on as well.
		}
	}
	return nil
}

// copyEtc gives a new /etc all of the image's.
func (n *crashNode) copyEtc(to *durable.Dir) error {
	return fs.WalkDir(n.image.FS(), "etc", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return to.MkdirAll(name)
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := n.image.Readlink(name)
			_, made := to.Symlink(target, name)
			return errors.Join(err, made)
		}

		text, err := n.image.ReadFile(name)
		_, made := to.WriteFile(name, text, 0o644)
		return errors.Join(err, made)
	})
}
