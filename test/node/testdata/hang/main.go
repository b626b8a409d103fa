// Command hang is an /init that does not come to an end.
package main

import (
	"fmt"
	"os"

	"github.com/loam-os/loam/agent/boot"
)

func main() {
	console := boot.NewConsole("/dev", "/sys/class/tty/console/active")
	machine, err := boot.BecomeInit(console)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	machine.Limit()
	select {}
}
