// Command registry is the registry of the project distribution with files as its
// only storage. Others bring the clients of three clouds, which are most of what
// is built.
package main

import (
	"os"

	"github.com/distribution/distribution/v3/registry"

	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() {
	if registry.RootCmd.Execute() != nil {
		os.Exit(1)
	}
}
