package main

import (
	"crypto"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/cmd/loamctl/show"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/publish"
)

// machineSigning is one run of machine sign.
type machineSigning struct {
	keys   []string
	serial uint64
	output string
	signer signerOptions
}

func machineSignCommand() *cobra.Command {
	var o machineSigning
	cmd := &cobra.Command{
		Use:               "sign FILE",
		ValidArgsFunction: completeYAML,
		Short:             "Sign a machine.yaml for nodes that take only signed ones",
		Long: `sign checks a machine.yaml and writes its signed form, which a node reads wherever it reads
a machine.yaml. A node with trusted keys (trust in machine.yaml, or --machine-trust of the
image) takes it if one of them has signed it, and if its serial number is higher than the one
before. The serial number says nothing else. Without --serial it is the seconds since 1970.
A file that is signed already is signed again.

` + signerHelp,
		Example: `  openssl genpkey -algorithm ed25519 -out machine.key
  openssl pkey -in machine.key -pubout -out machine.pem
  loamctl machine sign machine.yaml --key machine.key -o signed.yaml
  loamctl machine sign machine.yaml --key machine.key --serial 7 -o signed.yaml
  loamctl machine sign machine.yaml --key machine.pem \
    --signer 'pkcs11:token=plant?module-path=/usr/lib/softhsm/libsofthsm2.so'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("serial") {
				o.serial = uint64(max(time.Now().Unix(), 1))
			}
			switch o.serial {
			case 0:
				return usage.Errorf("--serial 0: want 1 or more")
			case math.MaxUint64:
				return usage.Errorf("--serial %d: no node would take another, as none is higher", o.serial)
			}

			text, err := o.sign(args[0], o.signer.external(cmd.Context()))
			if err != nil {
				return err
			}
			if err := os.WriteFile(o.output, text, 0o600); err != nil {
				return err
			}

			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: signed, serial %d\n", o.output, o.serial)
			return err
		},
	}

	f := cmd.Flags()
	f.StringArrayVar(&o.keys, "key", nil,
		"`FILE` with a private ed25519 key (PEM, PKCS #8), or with the public key of one that --signer "+
			"has; for several signatures, repeat it")
	f.Uint64Var(&o.serial, "serial", 0, "serial `NUMBER` (default: the seconds since 1970)")
	f.StringVarP(&o.output, "output", "o", "machine.signed.yaml", "`FILE` to write")
	o.signer.flags(f)
	_ = cmd.MarkFlagRequired("key") // it is a flag, see above

	return cmd
}

// sign returns the signed form of the machine.yaml at path.
func (o machineSigning) sign(path string, external publish.External) ([]byte, error) {
	text, err := document.ReadFile(path)
	if err != nil {
		return nil, err
	}

	opened, err := trust.Open(text)
	if err == nil {
		_, err = machine.Decode(path, opened.Text)
	}
	if err != nil {
		return nil, invalid(path, err)
	}

	var keys []crypto.Signer
	for _, file := range o.keys {
		key, err := publish.LoadKey(file, external)
		if err != nil {
			return nil, hint.With(err, "`openssl genpkey -algorithm ed25519 -out %s` makes one", file)
		}
		keys = append(keys, key)
	}

	return trust.Sign(opened.Text, o.serial, keys...)
}

func machineCheckCommand() *cobra.Command {
	var format string
	var files []string
	cmd := &cobra.Command{
		Use:               "check FILE",
		ValidArgsFunction: completeYAML,
		Short:             "Check who has signed a machine.yaml",
		Long: `check verifies that a signed machine.yaml is signed by one of the keys, as a node that trusts
them does, and shows its serial number, who has signed it, and what a node with it does.`,
		Example: "  loamctl machine check signed.yaml --trust machine.pem",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := machineKeys(files)
			if err != nil {
				return err
			}

			signed, err := checkMachine(args[0], keys)
			if err != nil {
				return err
			}
			return outcome.Write(cmd.OutOrStdout(), format, signed, signed.String)
		},
	}

	outcome.FormatFlag(cmd, &format, "text")
	cmd.Flags().StringArrayVar(&files, "trust", nil,
		"`FILE` with a public key (PEM), as openssl pkey -pubout writes it; for several, repeat it")
	_ = cmd.MarkFlagRequired("trust") // it is a flag, see above
	return cmd
}

// checkMachine says who has signed the machine.yaml at path, and what a node
// with it does.
func checkMachine(path string, keys trust.Keys) (show.SignedMachine, error) {
	text, err := document.ReadFile(path)
	if err != nil {
		return show.SignedMachine{}, err
	}

	opened, err := trust.Open(text)
	if err != nil {
		return show.SignedMachine{}, fmt.Errorf("%s: %w", path, err)
	}

	by := opened.Signers(keys)
	if len(by) == 0 {
		return show.SignedMachine{}, hint.With(
			fault.With(fmt.Errorf("%s: none of the keys has signed it, or it was changed since",
				path), fault.MachineNotTrusted),
			"loamctl machine sign %s --key KEY", path,
		)
	}

	m, err := machine.Decode(path, opened.Text)
	if err != nil {
		return show.SignedMachine{}, invalid(path, err)
	}

	summary := m.Summary()
	signed := show.SignedMachine{Path: path, Serial: opened.Serial, Summary: summary[:]}
	for _, key := range by {
		signed.Signers = append(signed.Signers, trust.FormatKey(key))
	}
	return signed, nil
}
