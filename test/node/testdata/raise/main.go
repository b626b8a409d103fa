// Command raise raises the number in the machine's TPM, and prints it.
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/loam-os/loam/agent/tpm"
)

func main() {
	n := tpm.OfMachine()
	to, err := strconv.Atoi(os.Args[1])
	if err == nil {
		err = n.Raise(to)
	}
	if err == nil {
		to, err = n.Read()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(to)
}
