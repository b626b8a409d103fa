package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	statuserr "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// errSilent is returned if a registry sent nothing for silenceTimeout.
var errSilent = fmt.Errorf("no answer in %s", silenceTimeout)

// isUnreachable reports whether err leaves the registry's answer unknown.
func isUnreachable(ctx context.Context, err error) bool {
	var status statuserr.ErrUnexpectedStatus
	switch {
	case ctx.Err() != nil || errdefs.IsNotFound(err) ||
		errors.Is(err, docker.ErrInvalidAuthorization):
		return false
	case errors.As(err, &status):
		return status.StatusCode >= http.StatusInternalServerError
	}
	var request *url.Error
	return errors.As(err, &request) || errors.Is(err, errSilent)
}

// explain adds a hint to an error of a registry.
func (m *remote) explain(ctx context.Context, err error) error {
	var status statuserr.ErrUnexpectedStatus
	var unknown *tls.CertificateVerificationError
	hosts := HostsDir + "/" + m.Hostname() + "/hosts.toml"
	switch {
	case ctx.Err() != nil:
		return err
	case errdefs.IsNotFound(err):
		return hint.With(
			fault.With(fmt.Errorf("the registry %s lacks a part of the image: %w", m.Hostname(), err),
				fault.ContentMissing),
			"push it again",
		)
	case errors.As(err, &unknown):
		return hint.With(
			fault.With(fmt.Errorf("the registry %s is not trusted: %w", m.Hostname(), err),
				fault.CertificateNotTrusted),
			"name its authority with ca in %s", hosts,
		)
	case errors.Is(err, docker.ErrInvalidAuthorization),
		errors.As(err, &status) &&
			(status.StatusCode == http.StatusUnauthorized ||
				status.StatusCode == http.StatusForbidden):
		return hint.With(
			fault.With(fmt.Errorf("the registry %s refuses: %w", m.Hostname(), err),
				fault.RegistryRefuses),
			"the node has no credentials: let it pull without, or through a mirror in %s", hosts,
		)
	case isUnreachable(ctx, err):
		return hint.With(
			fault.With(fmt.Errorf("the registry %s cannot be reached: %w", m.Hostname(), err),
				fault.RegistryUnreachable),
			"the agent retries; its mirrors are in %s", hosts,
		)
	}

	return err
}
