package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/component/extensions/operatingsystemconfig/original/components/nodeagent"
	"github.com/gardener/gardener/pkg/gardenadm"
	gardenadmbotanist "github.com/gardener/gardener/pkg/gardenadm/botanist"
	"github.com/go-logr/logr"
	"github.com/spf13/afero"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// renderSelfHosted does what `gardenadm init` does on the first node of a control
// plane before it applies the document to itself.
func (l *landscape) renderSelfHosted(ctx context.Context, known []corev1.Secret) (*rendered, []corev1.Secret, error) {
	if err := l.prepare(); err != nil {
		return nil, nil, err
	}

	gardenadmbotanist.NewFs = afero.NewMemMapFs
	resources := gardenadm.Resources{
		CloudProfile: l.cloudProfile,
		Project: &gardencorev1beta1.Project{
			ObjectMeta: metav1.ObjectMeta{Name: "garden"},
			Spec:       gardencorev1beta1.ProjectSpec{Namespace: &l.shoot.Namespace},
		},
		Shoot: l.shoot,
	}

	seedRandomness(l.name)
	b, err := gardenadmbotanist.NewGardenadmBotanist(ctx, logr.Discard(), l.clientSet(known), resources, nil, true)
	if err != nil {
		return nil, nil, err
	}
	if err := b.InitializeSecretsManagement(ctx); err != nil {
		return nil, nil, err
	}
	if err := b.DeployOperatingSystemConfigSecretForBootstrap(ctx); err != nil {
		return nil, nil, err
	}

	data := b.Shoot.Components.Extensions.OperatingSystemConfig.WorkerPoolNameToOperatingSystemConfigsMap()[l.pool().Name]
	r := &rendered{init: data.Init.Object, original: data.Original.Object}
	sortStaticPodFiles(r.original.Spec.Files, l.reordered)

	c := b.SeedClientSet.Client()
	r.secret, err = nodeagent.OperatingSystemConfigSecret(ctx, c, r.original,
		data.Original.GardenerNodeAgentSecretName, l.pool().Name, false)
	if err != nil {
		return nil, nil, err
	}

	secrets, err := l.secrets(ctx, c, len(known))
	return r, secrets, err
}

// sortStaticPodFiles gives the files of each static pod's volumes an order: they
// come out of a map, so Gardener's own is another each time.
func sortStaticPodFiles(files []extensionsv1alpha1.File, reverse bool) {
	ofVolume := func(f extensionsv1alpha1.File) bool {
		return strings.HasPrefix(f.Path, "/var/lib/static-pods/")
	}

	for len(files) > 0 {
		first := slices.IndexFunc(files, ofVolume)
		if first < 0 {
			return
		}
		files = files[first:]

		n := slices.IndexFunc(files, func(f extensionsv1alpha1.File) bool { return !ofVolume(f) })
		if n < 0 {
			n = len(files)
		}
		slices.SortFunc(files[:n], func(a, b extensionsv1alpha1.File) int { return cmp.Compare(a.Path, b.Path) })
		if reverse {
			slices.Reverse(files[:n])
		}
		files = files[n:]
	}
}
