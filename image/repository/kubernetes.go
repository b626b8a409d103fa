package repository

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/loam-os/loam/image/bundle"
)

// Kubernetes is a Kubernetes bundle in the repository. All of it is signed.
type Kubernetes struct {
	Version, Arch string
	Target
}

// kubernetesCustom is what targets.json says of a Kubernetes bundle, beside
// length and digest of its index. It is no custom of a release, so that programs
// that know only releases skip it.
type kubernetesCustom struct {
	Kind    string `json:"kind"`
	Version string `json:"version"`
	Arch    string `json:"arch"`
}

// kubernetes returns the targets that are indexes of Kubernetes bundles, newest
// first.
func kubernetes(targets map[string]*metadata.TargetFiles) []Kubernetes {
	return indexes(targets, kubernetesTarget, func(k Kubernetes) (version, path string) {
		return k.Version, k.Index
	})
}

func kubernetesTarget(path string, file *metadata.TargetFiles) (Kubernetes, error) {
	var c kubernetesCustom
	if err := readCustom(file, &c); err != nil {
		return Kubernetes{}, err
	}
	if c.Kind != bundle.KubernetesKind {
		return Kubernetes{}, fmt.Errorf("kind %.20q", c.Kind)
	}
	base, err := bundle.KubernetesBase(c.Version, c.Arch)
	if err != nil {
		return Kubernetes{}, err
	}

	t, err := target(path, base, file)
	return Kubernetes{Version: c.Version, Arch: c.Arch, Target: t}, err
}

// DescribeKubernetes is [Describe] for a Kubernetes bundle.
func DescribeKubernetes(
	ix bundle.Kubernetes, text []byte,
) (Kubernetes, *metadata.TargetFiles, error) {
	base, err := bundle.KubernetesBase(ix.Version, ix.Arch)
	if err != nil {
		return Kubernetes{}, nil, err
	}
	about, err := json.Marshal(kubernetesCustom{
		Kind:    bundle.KubernetesKind,
		Version: ix.Version,
		Arch:    ix.Arch,
	})
	if err != nil {
		return Kubernetes{}, nil, err
	}

	entry := entryOf(text, about)
	k, err := kubernetesTarget(base+indexSuffix, entry)
	return k, entry, err
}

// Fetch reads the index of the bundle, verified.
func (k Kubernetes) Fetch(ctx context.Context, s Store) (bundle.Kubernetes, error) {
	text, err := k.fetch(ctx, s)
	if err != nil {
		return bundle.Kubernetes{}, err
	}

	ix, err := bundle.ParseKubernetes(text)
	if err != nil {
		return bundle.Kubernetes{}, explain(k.Index, fmt.Errorf("%w (%w)", ErrInvalid, err))
	}
	if ix.Version != k.Version || ix.Arch != k.Arch {
		return bundle.Kubernetes{}, explain(k.Index, fmt.Errorf("%w (of %s %s, signed for another)",
			ErrInvalid, ix.Version, ix.Arch))
	}
	return ix, nil
}
