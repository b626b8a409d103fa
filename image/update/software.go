package update

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/output"
	"github.com/loam-os/loam/image/sbom"
)

// Software returns the packages and the Go modules of the build in dir, by its SBOM. It
// checks that this is the file of the manifest.
func Software(dir string) ([]manifest.Package, error) {
	m, _, err := output.ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	file, ok := m.Output(image.SBOMSuffix)
	if !ok {
		return nil, hint.With(
			fault.With(fmt.Errorf("%s: no file *%s", image.ManifestName, image.SBOMSuffix),
				fault.NotABuild),
			"build it again: older builds have no SBOM")
	}
	if err := output.Check(dir, []manifest.File{file}, io.Discard); err != nil {
		return nil, output.Damaged(err)
	}

	text, err := os.ReadFile(filepath.Join(dir, file.Name))
	if err != nil {
		return nil, err
	}
	software, err := sbom.Decode(text)
	if err != nil {
		return nil, output.Damaged(fmt.Errorf("%s: %w", file.Name, err))
	}
	return software, nil
}
