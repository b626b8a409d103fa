package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/component/extensions/operatingsystemconfig/original/components/nodeagent"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// renderAll writes the documents of all scenarios that this version of Gardener
// supports. A Shoot keeps the Secrets of its base, so that a neighbour differs
// by its change alone.
func renderAll(ctx context.Context, w *writer) error {
	secrets := map[string][]corev1.Secret{}
	provisioned := map[string]bool{}

	for _, s := range scenarios {
		l, err := s.landscape()
		if err != nil {
			return err
		}

		var rendered *rendered
		rendered, secrets[s.name], err = l.render(ctx, secrets[s.base])
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}

		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}

		d := document{Name: s.name, Varies: s.varies, Base: s.base}
		if err := w.reconcile(d, rendered.original, rendered.secret); err != nil {
			return err
		}

		if !s.provision {
			continue
		}

		if !provisioned[d.Base] {
			d.Base = ""
		}

		provisioned[s.name] = true
		if err := w.provision(d, rendered.init); err != nil {
			return err
		}
	}

	return nil
}

// rendered is what a gardenlet makes for one pool.
type rendered struct {
	init     *extensionsv1alpha1.OperatingSystemConfig
	original *extensionsv1alpha1.OperatingSystemConfig
	secret   *corev1.Secret
}

// render deploys the objects of the pool as a gardenlet does, lets the webhooks
// and the operating system's extension do their part, and computes the Secret
// for the node agents. Secrets that are known are not generated.
func (l *landscape) render(
	ctx context.Context, known []corev1.Secret,
) (*rendered, []corev1.Secret, error) {
	if l.selfHosted {
		return l.renderSelfHosted(ctx, known)
	}

	b, err := l.botanist(ctx, known)
	if err != nil {
		return nil, nil, err
	}
	if err := b.DeployOperatingSystemConfig(ctx); err != nil {
		return nil, nil, err
	}

	data :=
		b.Shoot.Components.Extensions.OperatingSystemConfig.WorkerPoolNameToOperatingSystemConfigsMap()[l.pool().Name]
	r := &rendered{init: data.Init.Object, original: data.Original.Object}
	for _, change := range append(l.webhooks, l.extensions...) {
		change(r.original)
	}

	r.secret, err = nodeagent.OperatingSystemConfigSecret(ctx, b.SeedClientSet.Client(), r.original,
		data.Original.GardenerNodeAgentSecretName, l.pool().Name, true)
	if err != nil {
		return nil, nil, err
	}

	secrets, err := l.secrets(ctx, b.SeedClientSet.Client(), known)
	return r, secrets, err
}

// generated are the Secrets of Gardener's secrets manager.
var generated = client.MatchingLabels{
	secretsmanager.LabelKeyManagedBy: secretsmanager.LabelValueSecretsManager,
}

// secrets returns all generated Secrets of the Shoot.
//
// After a rotation, Gardener's secrets manager takes the youngest of the former
// Secrets for the old one. A fake client does not set the time of creation, so
// this does: the Secrets of this rendering are younger than those known before.
func (l *landscape) secrets(
	ctx context.Context, c client.Client, known []corev1.Secret,
) ([]corev1.Secret, error) {
	now := metav1.NewTime(issued)
	for _, secret := range known {
		if !secret.CreationTimestamp.Before(&now) {
			now = metav1.NewTime(secret.CreationTimestamp.Add(time.Hour))
		}
	}

	list := &corev1.SecretList{}
	if err := c.List(ctx, list, client.InNamespace(l.namespace()), generated); err != nil {
		return nil, err
	}

	for i := range list.Items {
		if list.Items[i].CreationTimestamp.IsZero() {
			list.Items[i].CreationTimestamp = now
		}
	}

	return list.Items, nil
}
