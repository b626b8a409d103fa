// Command init is /init of the initramfs. It is a program of its own, and not
// loam under another name, because every UKI carries it: it has a tenth of the
// size, and most releases leave it as it is, so that nodes do not fetch it again.
package main

import (
	"fmt"
	"os"

	"github.com/loam-os/loam/agent/boot"
)

func main() {
	run()
	os.Exit(1)
}

// run boots the machine, or says why this process must not.
func run() {
	console := boot.NewConsole("/dev", "/sys/class/tty/console/active")
	machine, err := boot.BecomeInit(console)
	if err != nil {
		fmt.Fprintf(os.Stderr, "init: %v\n", err)
		return
	}
	defer func() {
		if r := recover(); r != nil {
			machine.Fail(fmt.Errorf("bug in loam: %v", r))
		}
	}()
	machine.Fail(machine.Main())
}
