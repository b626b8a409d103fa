package apply

// Carry makes the configuration that runs now the one that another version of the
// system starts with.
func (e *Executor) Carry(osVersion string) error {
	m, ok, err := e.store().Current(e.OSVersion)
	switch {
	case err != nil:
		return err
	case !ok:
		return e.store().Deactivate(osVersion)
	}
	return e.store().Activate(osVersion, m.Name())
}
