package turns

// KeptHalt returns why a configuration is halted that another one has replaced, "" if it
// is not. No node begins with it if it comes back.
func KeptHalt(l Ledger, target string) string { return l.Halts[haltKey(target)] }
