package registry

import (
	"fmt"
	"strings"

	"github.com/containerd/containerd/v2/pkg/reference"
)

// parse is the image that ref names, with all that a reference may leave out:
// no host is docker.io, no tag is latest (distribution/reference, Named).
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
