//go:build before_gardener_1_149

package main

import (
	"errors"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/gardenadm"
	"github.com/gardener/gardener/pkg/gardenlet/operation"
)

// trustRegistry is not supported by this version of Gardener.
func trustRegistry(*operation.Operation, string) error { return errors.ErrUnsupported }

// complete sets the Seed that gardenadm makes of each self-hosted Shoot.
func complete(r *gardenadm.Resources) { r.Seed = &gardencorev1beta1.Seed{} }
