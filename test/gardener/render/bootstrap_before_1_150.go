//go:build before_gardener_1_150

package main

import (
	"context"

	gardenadmbotanist "github.com/gardener/gardener/pkg/gardenadm/botanist"
)

// deploySelfHosted has gardenadm make the document of its own node.
func deploySelfHosted(ctx context.Context, b *gardenadmbotanist.GardenadmBotanist) error {
	return b.DeployOperatingSystemConfigSecretForBootstrap(ctx)
}
