package apply

// HandOver makes another OS version start with the current configuration. With
// own, a configuration that the other version already has stays.
func (e *Executor) HandOver(osVersion string, own bool) error {
	if own {
		if _, ok, err := e.store().Current(osVersion); err != nil || ok {
			return err
		}
	}

	m, ok, err := e.store().Current(e.OSVersion)
	switch {
	case err != nil:
		return err
	case !ok:
		return e.store().Deactivate(osVersion)
	}
	return e.store().Activate(osVersion, m.Name())
}
