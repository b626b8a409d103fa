// Package content finds what a configuration refers to instead of saying it:
// keys of Secrets and files of container images.
//
// A [Provider] is a directory that is watched, the cluster, or agent/registry.
// Content is a digest and a way to read it: a kubelet of 80 MB is never in
// memory.
package content

import (
	"context"
	"errors"
	"fmt"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/osc"
)

// Provider is a place that contents come from. What it does not have is
// ErrAbsent.
type Provider interface {
	// Secret is what the Secret of that name has under key.
	Secret(ctx context.Context, name, key string) (config.Content, error)
	// Image is the file at path, which is absolute, of the image ref.
	Image(ctx context.Context, ref, path string) (config.Content, error)
}

// ErrAbsent is that the place has no such content.
var ErrAbsent = errors.New("there is none")

// errNowhere is that the node was not told of any place.
var errNowhere = errors.New("the node has no place for such contents; " +
	"hint: name one in machine.yaml, such as contents: {directory: {path: /var/lib/contents}}")

// Resolve is the content of each reference. The error has everything that is
// missing, each with its reference. A nil provider has nothing.
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
		return config.Content{}, errNowhere
	case reference.Image != "":
		return provider.Image(ctx, reference.Image, reference.Path)
	}
	return provider.Secret(ctx, reference.Secret, reference.Key)
}
