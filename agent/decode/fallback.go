package decode

import (
	"context"
	"errors"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
)

// Fallback asks Second for what First does not have. It implements
// [content.Provider].
type Fallback struct {
	First, Second content.Provider
}

// Secret implements [content.Provider].
func (f Fallback) Secret(ctx context.Context, name, key string) (config.Content, error) {
	found, err := f.First.Secret(ctx, name, key)
	if errors.Is(err, content.ErrAbsent) {
		return f.Second.Secret(ctx, name, key)
	}
	return found, err
}

// Image implements [content.Provider].
func (f Fallback) Image(ctx context.Context, ref, path string) (config.Content, error) {
	found, err := f.First.Image(ctx, ref, path)
	if errors.Is(err, content.ErrAbsent) {
		return f.Second.Image(ctx, ref, path)
	}
	return found, err
}
