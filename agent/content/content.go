// Package content resolves references of a configuration: keys of Secrets and
// files of container images.
//
// A [Provider] is a watched directory, the cluster, or agent/registry. Content
// is a digest and a way to read it: a kubelet of 80 MB is never in memory.
package content

import (
	"context"
	"errors"
	"fmt"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Provider provides contents. It returns ErrAbsent for content that it does not
// have.
type Provider interface {
	// Secret returns the value of key in the Secret name.
	Secret(ctx context.Context, name, key string) (config.Content, error)
	// Image returns the file at path, which is absolute, in the image ref.
	Image(ctx context.Context, ref, path string) (config.Content, error)
}

// ErrAbsent is returned if a provider does not have the content.
var ErrAbsent = fault.With(errors.New("not found"), fault.ContentMissing)

// ErrNowhere is returned if the node has no provider.
var ErrNowhere = hint.With(fault.With(errors.New("the node has no source of contents"),
	fault.ContentMissing),
	"name one in machine.yaml, such as contents: {directory: {path: /var/lib/contents}}")

// Resolve returns the content of each reference. The error lists every missing
// content with its reference. A nil provider has nothing.
func Resolve(
	ctx context.Context, provider Provider, references []osc.Reference,
) (map[osc.Reference]config.Content, error) {
	found := make(map[osc.Reference]config.Content, len(references))
	var errs []error
	for _, reference := range references {
		content, err := resolve(ctx, provider, reference)
		if err != nil {
			errs = append(errs, fmt.Errorf("find %s: %w", reference, err))
			continue
		}
		found[reference] = content
	}
	return found, errors.Join(errs...)
}

func resolve(
	ctx context.Context, provider Provider, reference osc.Reference,
) (config.Content, error) {
	switch {
	case provider == nil:
		return config.Content{}, ErrNowhere
	case reference.Image != "":
		return provider.Image(ctx, reference.Image, reference.Path)
	}
	return provider.Secret(ctx, reference.Secret, reference.Key)
}
