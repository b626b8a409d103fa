package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/addons"
	"github.com/loam-os/loam/agent/plane/api"
)

// configMaps is the path of the ConfigMap with the record, without its name.
const configMaps = "/api/v1/namespaces/" + plane.RecordNamespace + "/configmaps"

// published is the ConfigMap with the record.
type published struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metadata          `json:"metadata"`
	Data       map[string]string `json:"data"`
}

type metadata struct {
	Name            string `json:"name"`
	Namespace       string `json:"namespace"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// agreement keeps the record of a node and the ConfigMap with it the same.
type agreement struct {
	store plane.Store
	root  string
	log   *zap.Logger

	// unknown are the fields of the ConfigMap that were logged last.
	unknown logged
}

// agree makes the record of the node and the ConfigMap the same, and returns it,
// and the version of the ConfigMap. If the ConfigMap is refused, that is the record
// of the node; the version is "" if the ConfigMap could not be read.
func (a *agreement) agree(ctx context.Context, server *api.Client) (plane.Record, string, error) {
	own, found, err := a.store.Record()
	if err == nil && !found {
		err = errors.New("this node has no cluster record")
	}
	if err != nil {
		return own, "", err
	}
	object, record, err := a.read(ctx, server)
	version := object.Metadata.ResourceVersion
	if err != nil {
		return own, version, err
	}
	last, err := a.last(own, record)
	if err != nil {
		return own, version, err
	}

	agreed := own
	switch plane.Agree(last, own, record) {
	case plane.Publish:
		err = checkChange(a.store, plane.RecordFile, own.Text(), own)
		if err == nil {
			err = a.store.WritePending(own)
		}
		if err == nil {
			version, err = publish(ctx, server, own, version)
		}
		if api.IsRefused(err) {
			err = errors.Join(err, a.store.RemovePending())
		}
	case plane.Follow:
		agreed = *record
		err = a.follow(ctx, own, agreed)
		if err == nil && last != nil && string(last.Text()) != string(own.Text()) {
			a.log.Warn("record and ConfigMap have changed, and the ConfigMap counts",
				zap.ByteString("dropped", own.Text()))
		}
	}
	if err != nil {
		return own, version, err
	}

	if last == nil || string(last.Text()) != string(agreed.Text()) {
		err = a.store.WritePublished(agreed)
	}
	return agreed, version, err
}

// last returns what the record of the node and the ConfigMap last agreed on,
// nil before the first time.
func (a *agreement) last(own plane.Record, published *plane.Record) (*plane.Record, error) {
	last, err := a.store.Published()
	if err != nil {
		return nil, err
	}
	pending, err := a.store.Pending()
	if err != nil {
		return nil, err
	}

	base := plane.Base(last, pending, own, published)
	if base == last {
		return last, nil
	}
	return base, a.store.WritePublished(*base)
}

// follow replaces the record of the node by that of the ConfigMap, unless the
// cluster cannot have it.
func (a *agreement) follow(ctx context.Context, own, record plane.Record) error {
	_, err := DecodeChange(ctx, a.store, a.root, plane.PublishedName, record.Text(), own)
	if err != nil {
		return err
	}

	a.log.Info("follow the record of the ConfigMap", zap.String("cluster", own.Name))
	return a.store.FollowRecord(own, record)
}

// read returns the ConfigMap, and the record in it, nil if it has none. It
// logs fields that are not known, once.
func (a *agreement) read(
	ctx context.Context, server *api.Client,
) (published, *plane.Record, error) {
	var object published
	err := server.Do(ctx, http.MethodGet, path.Join(configMaps, plane.RecordName), nil, &object)
	if api.IsNotFound(err) {
		return object, nil, nil
	}
	if err != nil {
		return object, nil, fmt.Errorf("read the record of the cluster: %w", err)
	}

	text, found := object.Data[plane.RecordField]
	if !found {
		return object, nil, nil
	}
	r, unknown, err := plane.DecodePublished(text)
	if err != nil {
		return object, nil, err
	}

	var problem string
	if len(unknown) > 0 {
		problem = unknown.Error()
	}
	if a.unknown.isNews(problem) {
		a.log.Warn("fields of the ConfigMap are ignored", zap.String("problem", problem))
	}
	return object, &r, nil
}

// publish writes the ConfigMap, unless it has another version by now, and returns
// its new version.
func publish(
	ctx context.Context, server *api.Client, r plane.Record, version string,
) (string, error) {
	object := published{
		APIVersion: "v1",
		Kind:       "ConfigMap",
		Metadata:   metadata{plane.RecordName, plane.RecordNamespace, version},
		Data:       map[string]string{plane.RecordField: string(r.Text())},
	}
	at := path.Join(configMaps, plane.RecordName)
	var written published
	err := server.Apply(ctx, at, addons.Manager, object, &written)
	if err != nil {
		return "", fmt.Errorf("publish the record of the cluster: %w", err)
	}
	return written.Metadata.ResourceVersion, nil
}
