package main

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/loam-os/loam/agent/trust"
)

// trustFlag adds the flag for the keys that an image trusts.
func trustFlag(f *pflag.FlagSet, files *[]string) {
	f.StringArrayVar(files, "machine-trust", nil,
		"`FILE` with a public key (PEM), one of which must have signed every machine.yaml of a node; "+
			"for several, repeat it")
}

// machineKeys reads public keys that sign machine.yaml: PEM files, as `openssl
// pkey -pubout` writes them.
func machineKeys(files []string) (trust.Keys, error) {
	var keys trust.Keys
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}

		var der []byte
		if block, _ := pem.Decode(text); block != nil && block.Type == "PUBLIC KEY" {
			der = block.Bytes
		}

		key, err := trust.ParseKey(base64.StdEncoding.EncodeToString(der))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		keys = append(keys, key)
	}

	// The same limit counts here as on a command line.
	return trust.ParseKeys(keys.String())
}
