package main

import (
	"cmp"
	"context"
	"fmt"
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

// renderSelfHosted does what `gardenadm init` does on the first node of a
// control plane before it applies the document to itself.
func (l *landscape) renderSelfHosted(
	ctx context.Context, known []corev1.Secret,
) (*rendered, []corev1.Secret, error) {
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

	complete(&resources)

	seedRandomness(l.name)

	b, err := gardenadmbotanist.NewGardenadmBotanist(ctx, logr.Discard(), l.clientSet(known),
		resources, nil, true)
	if err != nil {
		return nil, nil, err
	}
	if err := b.InitializeSecretsManagement(ctx); err != nil {
		return nil, nil, err
	}
	if err := deploySelfHosted(ctx, b, l.connected); err != nil {
		return nil, nil, err
	}

	data :=
		b.Shoot.Components.Extensions.OperatingSystemConfig.WorkerPoolNameToOperatingSystemConfigsMap()[l.pool().Name]
	r := &rendered{init: data.Init.Object, original: data.Original.Object}
	if err := orderStaticPods(r.original.Spec.Files, l.reordered); err != nil {
		return nil, nil, err
	}

	c := b.SeedClientSet.Client()
	r.secret, err = nodeagent.OperatingSystemConfigSecret(ctx, c, r.original,
		data.Original.GardenerNodeAgentSecretName, l.pool().Name, false)
	if err != nil {
		return nil, nil, err
	}

	secrets, err := l.secrets(ctx, c, known)
	return r, secrets, err
}

// orderStaticPods gives the files of static pods an order, as Gardener's
// changes from run to run. Files of volumes come out of a map, and its YAML
// library has cycles when it compares keys such as 7b240a63, 60aedb9d and
// 5e0404bf, so that the order of a manifest's annotations depends on a map as
// well.
func orderStaticPods(files []extensionsv1alpha1.File, reverse bool) error {
	for i, f := range files {
		if !strings.HasPrefix(f.Path, "/etc/kubernetes/manifests/") {
			continue
		}

		content, err := codec.Decode(f.Content.Inline)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}

		inline, err := codec.Encode(orderAnnotations(content, reverse), f.Content.Inline.Encoding)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}

		files[i].Content.Inline = inline
	}

	// The files of one pod follow its manifest.
	ofVolume := func(f extensionsv1alpha1.File) bool {
		return strings.HasPrefix(f.Path, "/var/lib/static-pods/")
	}

	for len(files) > 0 {
		n := slices.IndexFunc(files, func(f extensionsv1alpha1.File) bool { return !ofVolume(f) })
		if n < 0 {
			n = len(files)
		}

		slices.SortFunc(files[:n], func(a, b extensionsv1alpha1.File) int {
			return cmp.Compare(a.Path, b.Path)
		})

		if reverse {
			slices.Reverse(files[:n])
		}

		files = files[min(n+1, len(files)):]
	}

	return nil
}

// orderAnnotations sorts the annotations of a manifest, one a line.
func orderAnnotations(manifest []byte, reverse bool) []byte {
	lines := strings.Split(string(manifest), "\n")
	first := 1 + slices.Index(lines, "  annotations:")
	last := first
	for strings.HasPrefix(lines[last], "    ") {
		last++
	}

	slices.Sort(lines[first:last])
	if reverse {
		slices.Reverse(lines[first:last])
	}

	return []byte(strings.Join(lines, "\n"))
}
