package publish

import (
	"context"
	"time"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/repository"
)

// PublishKubernetes adds a Kubernetes bundle, whose pack is the file pack, to the
// repository in dir, as [Publish] adds a release.
func PublishKubernetes(
	ctx context.Context,
	dir string,
	keys Keys,
	ix bundle.Kubernetes,
	pack string,
	e Expiries,
	now time.Time,
	report meter.Report,
) (repository.Kubernetes, error) {
	text, err := ix.Encode()
	if err != nil {
		return repository.Kubernetes{}, err
	}
	k, entry, err := repository.DescribeKubernetes(ix, text)
	if err != nil {
		return repository.Kubernetes{}, err
	}

	p := publication{
		Target: k.Target,
		entry:  entry,
		index:  text,
		files:  []content{{File: packOf(ix.Pack), from: pack}},
		refuse: func(err error) error {
			return hint.With(err, "nodes keep what they have of a version: "+
				"publish other programs in another repository")
		},
	}
	s := signer{
		dir:      dir,
		keys:     keys,
		expiries: e,
		now:      now,
	}
	return k, p.publish(ctx, s, report)
}
