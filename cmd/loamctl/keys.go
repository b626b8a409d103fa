package main

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/cmd/complete"
	"github.com/loam-os/loam/image/sign/ownerkey"
	"github.com/loam-os/loam/image/tools"
)

// keysOptions are the flags of keys.
type keysOptions struct {
	pk, kek     signOptions
	moreKEK, db []string
	source      string
}

func keysCommand() *cobra.Command {
	var o keysOptions
	cmd := &cobra.Command{
		Use:               "keys DIR",
		ValidArgsFunction: complete.Directories,
		Short:             "Make what enrolls own keys in firmware, for Secure Boot",
		Long: `keys writes PK.auth, KEK.auth and db.auth into DIR: signed variables, by which firmware in setup
mode learns whose programs it is to start. loamctl sign --enroll DIR puts them on the ESP of an
image, where the boot loader takes them; the setup of most firmware reads them from a USB drive,
too. No private key is in them.

PK owns the machine, KEK may change db and dbx, db names the signers of programs: give it the
certificate that signs images, and the keys of option ROMs that a machine needs to start, which most
graphics and network cards have from Microsoft. Without them such a machine may show nothing any
more.`,
		Example: `  loamctl keys ./enroll --pk-key pk.key --pk-certificate pk.pem --db db.pem
  loamctl keys ./enroll --pk-key pk.key --pk-certificate pk.pem --kek-key kek.key --kek-certificate kek.pem \
    --db db.pem --db MicCorUEFCA2011.crt --more-kek MicCorKEKCA2011.crt`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tree := func() (tools.Tree, error) { return toolsTree(cmd.Context(), o.source) }
			a, err := o.authorities(ownerkey.Tokens{Context: cmd.Context(), PIN: askPIN, Tools: tree})
			if err != nil {
				return err
			}

			files, err := a.Variables()
			if err != nil {
				return err
			}

			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}

			for name, content := range files {
				err = errors.Join(err, os.WriteFile(filepath.Join(args[0], name), content, 0o644))
			}
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(),
					"%s: PK %s, KEK %s and %d more, %d certificates in db\n",
					args[0], a.PK.Certificate.Subject, a.KEK.Certificate.Subject,
					len(a.MoreKEK), len(a.DB))
			}

			return err
		},
	}

	f := cmd.Flags()
	o.pk.flags(f, "pk-")
	o.kek.flags(f, "kek-")
	f.StringArrayVar(&o.moreKEK, "more-kek", nil,
		"certificate `FILE` of others that may change db and dbx, also several")
	f.StringArrayVar(&o.db, "db", nil,
		"certificate `FILE` whose programs firmware starts, also several (required)")
	f.StringVar(&o.source, "source", ".",
		"`DIR` with Loam's sources; its tools tree reads keys in tokens")

	// they are flags, see above
	_ = errors.Join(cmd.MarkFlagRequired("pk-key"), cmd.MarkFlagRequired("pk-certificate"),
		cmd.MarkFlagRequired("db"))
	return cmd
}

// authorities reads the keys. Without one of its own, KEK is PK.
func (o keysOptions) authorities(tokens ownerkey.Tokens) (a ownerkey.Authorities, err error) {
	o.kek.key = cmp.Or(o.kek.key, o.pk.key)
	o.kek.certificate = cmp.Or(o.kek.certificate,
		o.pk.certificate)

	a.PK, err = ownerkey.Open(o.pk.key, o.pk.certificate, tokens)
	if err != nil {
		return a, err
	}

	a.KEK, err = ownerkey.Open(o.kek.key, o.kek.certificate, tokens)
	if err != nil {
		return a, err
	}

	a.MoreKEK, err = readCertificates(o.moreKEK)
	if err != nil {
		return a, err
	}

	a.DB, err = readCertificates(o.db)
	return a, err
}

func readCertificates(files []string) (all []*x509.Certificate, err error) {
	for _, file := range files {
		c, err := ownerkey.ReadCertificate(file)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}
