package registry

import (
	"fmt"
	"strings"

	"github.com/containerd/containerd/v2/pkg/reference"
)

// parse returns the image that ref names. It completes the parts that a
// reference may leave out: the host is docker.io, the tag latest
// (distribution/reference, Named).
func parse(ref string) (reference.Spec, error) {
	host, rest, ok := strings.Cut(ref, "/")
	switch {
	case !ok:
		ref = "docker.io/library/" + ref
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		ref = "docker.io/" + ref
	case host == "docker.io" && !strings.Contains(rest, "/"):
		ref = "docker.io/library/" + rest
	}

	spec, err := reference.Parse(ref)
	if err != nil {
		return reference.Spec{}, fmt.Errorf("image %s: %w", ref, err)
	}

	if spec.Object == "" {
		spec.Object = "latest"
	}

	return spec, nil
}
