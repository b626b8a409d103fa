//go:build before_gardener_1_150

package main

import (
	"context"
	"errors"

	gardenadmbotanist "github.com/gardener/gardener/pkg/gardenadm/botanist"
)

// deploySelfHosted has gardenadm make the document of its own node. Tokens that
// are renewed are not supported by this version of Gardener.
func deploySelfHosted(
	ctx context.Context, b *gardenadmbotanist.GardenadmBotanist, connected bool,
) error {
	if connected {
		return errors.ErrUnsupported
	}
	return b.DeployOperatingSystemConfigSecretForBootstrap(ctx)
}
