package apply

import "github.com/loam-os/loam/agent/generation"

// handOver makes OS version to start with the configuration of OS version from.
// With own, a configuration that to already has stays.
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
