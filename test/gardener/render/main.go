// Command render writes what a Gardener sends to nodes, with Gardener's own
// code: OperatingSystemConfigs of many Shoots as the Secrets that node agents
// read, and as the user data of a machine's first boot.
//
//	scenario --change--> landscape: Shoot, seed, extension, webhook
//	                         |
//	                         | Gardener's botanist renders
//	                         v
//	                     rendered --writer--> documents, index.json
//
// A scenario changes one thing of its base and keeps its Secrets, so that its
// documents differ by that change alone. Time and randomness are fixed: the
// same Gardener writes the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/gardener/gardener/pkg/component/extensions/operatingsystemconfig"
	gardenletfeatures "github.com/gardener/gardener/pkg/gardenlet/features"
)

func main() {
	out := flag.String("out", "", "empty `directory` for the documents and their index.json")
	flag.Parse()

	if err := run(context.Background(), *out); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string) error {
	if out == "" {
		return errors.New("no directory to write to\nhint: pass --out DIR")
	}

	gardenletfeatures.RegisterFeatureGates()
	operatingsystemconfig.TimeNow = func() time.Time { return issued }

	w := newWriter(out)
	if err := renderAll(ctx, w); err != nil {
		return err
	}

	return w.finish()
}
