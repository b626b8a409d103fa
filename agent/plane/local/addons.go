package local

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/addons"
	"github.com/loam-os/loam/agent/plane/api"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/agent/plane/pki"
)

// repairInterval is how often add-ons are applied that have not changed, so that
// what was changed or deleted in the cluster is put back.
const repairInterval = time.Hour

// applied is when which add-ons were applied last.
type applied struct {
	digest [sha256.Size]byte
	at     time.Duration
}

// addOns applies the objects that a node keeps in its cluster.
type addOns struct {
	store   plane.Store
	root    string
	bundles *bundles
	uptime  func() time.Duration
	log     *zap.Logger
}

// apply applies the add-ons of a record if they have changed, or if it is
// long ago. A record that is refused never runs, so its add-ons must not, and
// those of an upgrade come last.
func (a addOns) apply(
	ctx context.Context, server *api.Client, r plane.Record, last *applied,
) error {
	if err := checkChange(a.store, plane.RecordFile, r.Text(), r); err != nil {
		return err
	}
	if err := checkEtcd(ctx, a.store, a.root, plane.RecordFile, r.Text(), r); err != nil {
		return err
	}
	if err := checkPrograms(ctx, a.store, a.root, r); err != nil {
		return err
	}
	b, err := a.bundles.open(r)
	if err != nil {
		return err
	}
	objects, err := objectsOf(r, b)
	if err != nil {
		return err
	}

	now := applied{digestOf(objects), a.uptime()}
	if last.at > 0 && now.digest == last.digest && now.at-last.at < repairInterval {
		return nil
	}
	err = addons.Reconcile(ctx, server, objects)
	if err != nil {
		return err
	}
	if now.digest != last.digest {
		a.log.Info("applied the add-ons of the cluster", zap.Strings("addOns", r.AddOns))
	}
	*last = now
	return nil
}

func digestOf(objects []addons.Object) [sha256.Size]byte {
	sum := sha256.New()
	for _, o := range objects {
		// It holds nothing that JSON cannot express.
		_ = json.NewEncoder(sum).Encode(o.Body())
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

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
