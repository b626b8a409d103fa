// Command init is /init of the initramfs. It is a program of its own, and not
// loam under another name, because every UKI carries it: it has a tenth of the
// size, and most releases leave it as it is, so that nodes do not fetch it
// again.
package main

import (
	"fmt"
	"os"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/hint"
)

func main() {
	fmt.Fprintln(os.Stderr, "init:", hint.Text(boot.AsInit((*boot.Init).Main)))
	os.Exit(1)
}
