package local

import (
	"context"
	"net/http"
	"path/filepath"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/addons"
	"github.com/loam-os/loam/agent/plane/api"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/plane/pki"
)

// AddOnHealth returns why an add-on of the record is not as it should be on the
// node with that root directory, nil if it is.
func AddOnHealth(
	ctx context.Context, store plane.Store, root string, r plane.Record, addOn string,
) error {
	if addOn == plane.AddOnProxy {
		return check(ctx, http.DefaultClient, plane.ProxyHealthURL)
	}

	b, err := bundle.Open(filepath.Join(root, bundleDir(r)))
	if err != nil {
		return err
	}
	objects, err := addons.Of(r, imagesOf(b))
	if err != nil {
		return err
	}
	server, err := api.New(store, pki.Agent)
	if err != nil {
		return err
	}
	defer server.Close()
	return addons.Check(ctx, server, objects)
}

// objectsOf returns the objects that the node keeps in the cluster of a record with
// that bundle: the admission policies, and those of the add-ons.
func objectsOf(r plane.Record, b bundle.Bundle) ([]addons.Object, error) {
	policies, err := addons.Policies()
	if err != nil {
		return nil, err
	}
	objects, err := addons.Of(r, imagesOf(b))
	if err != nil {
		return nil, err
	}
	return append(policies, objects...), nil
}

// imagesOf returns the names of the images of a bundle.
func imagesOf(b bundle.Bundle) []string {
	var images []string
	for _, image := range b.Images {
		images = append(images, image.Name)
	}
	return images
}
