package apply

import "github.com/loam-os/loam/agent/generation"

// HandOver makes another OS version start with the current configuration of the
// node. With own, a configuration that the other version already has stays.
func HandOver(c Config, osVersion string, own bool) error {
	store := generation.Open(c.State)
	if own {
		if _, ok, err := store.Current(osVersion); err != nil || ok {
			return err
		}
	}

	m, ok, err := store.Current(c.OSVersion)
	switch {
	case err != nil:
		return err
	case !ok:
		return store.Deactivate(osVersion)
	}
	return store.Activate(osVersion, m.Name())
}
