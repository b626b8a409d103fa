// Package systemdmodel holds agent/apply against real systemd, in a container.
// A model, which knows the documents and nothing of the engine, says what has
// to become of every unit with a change: the tests walk random pairs of
// configurations (LOAM_PAIRS of them, from LOAM_SEED on), and situations that
// matter by name.
package systemdmodel
