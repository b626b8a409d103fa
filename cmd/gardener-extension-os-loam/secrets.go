package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// secretClient is a client without the right to read Secrets. Gardener's library reads
// the Secret with the user data before it writes it, in a namespace and of a name that
// RBAC cannot list. So a read is a patch that changes nothing: its answer is the Secret,
// and the chart's admission policy judges it as it judges all patches.
type secretClient struct{ client.Client }

// newSecretClient is a [client.NewClientFunc].
func newSecretClient(config *rest.Config, options client.Options) (client.Client, error) {
	c, err := client.New(config, options)
	return secretClient{c}, err
}

// Get implements [client.Client].
func (c secretClient) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	secret, ok := object.(*corev1.Secret)
	if !ok {
		return c.Client.Get(ctx, key, object, options...)
	}
	secret.Namespace = key.Namespace
	secret.Name = key.Name
	return c.Patch(ctx, secret, client.RawPatch(types.MergePatchType, []byte("{}")))
}
