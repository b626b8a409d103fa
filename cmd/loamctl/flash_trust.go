package main

import (
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/image/inspect"
)

// notTrusted returns why a new node would not take a machine.yaml from its disk: the
// image has keys, and none of them has signed it.
func notTrusted(systems []inspect.UKI, name string, text []byte) error {
	for _, system := range systems {
		keys, err := trust.OfCmdline(system.Cmdline)
		if err != nil {
			return err
		}
		_, err = source.Verify(source.Document{Name: name, Text: text}, keys, nil)
		if err != nil {
			return err
		}
	}
	return nil
}
