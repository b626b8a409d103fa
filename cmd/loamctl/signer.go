package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/image/sign/ownerkey"
	"github.com/loam-os/loam/image/tools"
)

// signerOptions say how ed25519 keys are reached that are not in files.
type signerOptions struct {
	by, source string
}

// signerHelp is the part of a command's help about them.
const signerHelp = `A key file with a public key only stands for a private one that --signer reaches: in a token, by a
pkcs11: URI (RFC 7512) with module-path, where it has the name of the file without .pem unless the
URI names one; or by a command, which gets the message on its standard input and the name in
LOAM_KEY, and prints the signature of 64 bytes. A PIN is in the file that pin-source names, or in
the environment as LOAM_PIN, or asked for.`

func (o *signerOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.by, "signer", "",
		"pkcs11: `URI` of a token, or command, with the keys whose files have only the public key")
	f.StringVar(&o.source, "source", ".",
		"`DIR` with Loam's sources; its tools tree reads keys in tokens")
}

// external returns what signs with these keys.
func (o signerOptions) external(ctx context.Context) publish.External {
	if o.by == "" {
		return publish.FilesOnly
	}
	return o.reach(ctx).Key
}

func (o signerOptions) reach(ctx context.Context) *ownerkey.External {
	return &ownerkey.External{By: o.by, Tokens: ownerkey.Tokens{
		Context: ctx,
		PIN:     askPIN,
		Tools:   func() (tools.Tree, error) { return toolsTree(ctx, o.source) },
	}}
}

func publicKeyCommand() *cobra.Command {
	var o signerOptions
	cmd := &cobra.Command{
		Use:               "pubkey NAME",
		ValidArgsFunction: cobra.NoFileCompletions,
		Short:             "Print the public key of a key in a token",
		Long: `pubkey prints the public key of that name as PEM. In a file NAME.pem it stands for the private key,
which does not leave its token, wherever releases or machine.yaml are signed with --signer.`,
		Example: `  loamctl pubkey targets --signer 'pkcs11:token=plant?module-path=/usr/lib/softhsm/libsofthsm2.so'`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !ownerkey.InToken(o.by) {
				return usage.Errorf("--signer %q: want the pkcs11: URI of a token", o.by)
			}
			text, err := o.reach(cmd.Context()).Public(args[0])
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}

	o.flags(cmd.Flags())
	_ = cmd.MarkFlagRequired("signer") // it is a flag, see above
	return cmd
}
