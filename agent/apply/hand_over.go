package apply

import "github.com/loam-os/loam/agent/generation"

// handOver makes the OS version called to start with the configuration of the OS
// version called from. With own, to keeps its own configuration if it has one.
func handOver(store *generation.Store, from, to string, own bool) error {
	if own {
		if _, ok, err := store.Current(to); err != nil || ok {
			return err
		}
	}

	m, ok, err := store.Current(from)
	switch {
	case err != nil:
		return err
	case !ok:
		return store.Deactivate(to)
	}
	return store.Activate(to, m.Name())
}
