//go:build !before_gardener_1_149

package main

import (
	"github.com/gardener/gardener/pkg/gardenadm"
	"github.com/gardener/gardener/pkg/gardenlet/operation"
)

// trustRegistry makes nodes trust an authority for the landscape's registry.
func trustRegistry(o *operation.Operation, bundle string) error {
	o.RegistryCABundle = &bundle
	return nil
}

// complete sets what gardenadm would take out of files, and is in no other
// place.
func complete(*gardenadm.Resources) {}
