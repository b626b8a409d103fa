//go:build !before_gardener_1_150

package main

import (
	"context"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	gardenadmbotanist "github.com/gardener/gardener/pkg/gardenadm/botanist"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deploySelfHosted has gardenadm make the document of its own node, which has no
// backup of etcd to start from. With the Shoot connected to a garden, a gardenlet
// makes it, and the control plane's clients have tokens that are renewed.
func deploySelfHosted(
	ctx context.Context, b *gardenadmbotanist.GardenadmBotanist, connected bool,
) error {
	if !connected {
		return b.DeployOperatingSystemConfigSecretForBootstrap(ctx, "")
	}

	shoot := b.Shoot.GetInfo().DeepCopy()
	shoot.Status.Gardener.Name = "gardenlet"
	b.Shoot.SetInfo(shoot)

	// What renews tokens runs as a pod.
	manager := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Name:      v1beta1constants.DeploymentNameGardenerResourceManager,
		Namespace: b.Shoot.ControlPlaneNamespace,
	}}
	if err := b.SeedClientSet.Client().Create(ctx, manager); err != nil {
		return err
	}

	if err := b.DeployControlPlaneDeployments(ctx, true, true, ""); err != nil {
		return err
	}
	_, _, err := b.DeployOperatingSystemConfigWithStaticPods(ctx, true, true, "")
	return err
}
