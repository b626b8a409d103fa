package apply

// Carry makes the configuration that runs now the one that another version of
// the system starts with; with own, only if that has none of its own.
func (e *Executor) Carry(osVersion string, own bool) error {
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
