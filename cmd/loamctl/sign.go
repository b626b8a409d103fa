package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/openpgp"
	"github.com/loam-os/loam/image/sign"
	"github.com/loam-os/loam/image/sign/ownerkey"
	"github.com/loam-os/loam/image/tools"
)

// signOptions are the flags of every command that signs a build.
type signOptions struct {
	// key and certificate are "" for none.
	key, certificate string
}

func (o *signOptions) flags(f *pflag.FlagSet, prefix string) {
	f.StringVar(&o.key, prefix+"key", "", "private key: PKCS #8 file (PEM), or pkcs11: URI")
	f.StringVar(&o.certificate, prefix+"certificate", "",
		"certificate of --"+prefix+"key: PEM file")
}

// enrollOptions are the flags for firmware that does not know the key yet.
type enrollOptions struct{ dir, when string }

func (o *enrollOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.dir, "enroll", "",
		"put what loamctl keys has written into that directory on the ESP, "+
			"for firmware in setup mode")
	f.StringVar(&o.when, "enroll-when", string(sign.IfSafe),
		"who enrolls it: if-safe: the loader in virtual machines, "+
			"elsewhere the operator in its menu; manual: the operator; force: the loader")
}

// sumsOptions are the flags of who signs SHA256SUMS.
type sumsOptions struct{ file string }

func (o *sumsOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.file, "sums-key", "",
		"private OpenPGP key that signs SHA256SUMS, for systemd-sysupdate and gpgv")
}

// key is nil without one.
func (o sumsOptions) key() (sign.SumsSigner, error) {
	if o.file == "" {
		return nil, nil
	}
	return openpgp.ReadKey(o.file, time.Now(), askPIN)
}

// add adds it to the keys of a build.
func (o enrollOptions) add(k *sign.Keys) error {
	if o.dir == "" {
		return nil
	}

	k.When = sign.When(o.when)
	if !slices.Contains([]sign.When{sign.IfSafe, sign.Manual, sign.Force}, k.When) {
		return usage.Errorf("--enroll-when %q: want if-safe, manual or force", o.when)
	}

	k.Enroll = map[string][]byte{}
	for _, name := range ownerkey.Names() {
		file := filepath.Join(o.dir, name)
		content, err := os.ReadFile(file)
		if err == nil {
			if has, bad := efivar.ParseAuthenticated(content); bad != nil || len(has) == 0 {
				err = fault.With(fmt.Errorf("%s: no signed variable with a key: %d bytes", file, len(content)),
					fault.KeyUnfit)
			}
		}

		if err != nil {
			return hint.With(fmt.Errorf("--enroll: %w", err), "loamctl keys %s makes it", o.dir)
		}

		k.Enroll[name] = content
	}

	return nil
}

// check refuses a key without its certificate. It opens no token: that may take
// tools and a PIN.
func (o signOptions) check() error {
	if ownerkey.InToken(o.key) && o.certificate != "" {
		_, err := ownerkey.ReadCertificate(o.certificate)
		return err
	}
	_, err := o.keys(ownerkey.Tokens{})
	return err
}

// keys opens the keys, if there are any.
func (o signOptions) keys(tokens ownerkey.Tokens) (k sign.Keys, err error) {
	switch {
	case o.key == "" && o.certificate == "":
		return k, nil
	case o.key == "" || o.certificate == "":
		return k, hint.With(usage.Errorf("key and certificate: one without the other"), "name both")
	}
	k.Programs, err = ownerkey.Open(o.key, o.certificate, tokens)
	return k, err
}

func signCommand() *cobra.Command {
	var o signOptions
	var enroll enrollOptions
	var sums sumsOptions
	var source string
	cmd := &cobra.Command{
		Use:               "sign BUILD_DIR",
		ValidArgsFunction: completeBuilds(0),
		Short:             "Sign a build with your own keys, for Secure Boot and for downloads",
		Long: `sign signs, in all files of a build, the boot loader, the unified kernel images and the root
hash; the root file system stays as it is. Signatures that the build has are replaced. The
directory has the build as it was before, or all of it signed. The same keys make the same bytes.
With --sums-key it signs the list of digests, too, or only that.

The key is a file, or a pkcs11: URI (RFC 7512) with module-path, the token's library. Its PIN is in
the file that pin-source names, or in the environment as LOAM_PIN, or asked for.`,
		Example: `  loamctl sign build/amd64-cloud --key db.key --certificate db.pem
  loamctl sign build/amd64-cloud --key db.key --certificate db.pem --enroll enroll
  loamctl sign build/amd64-cloud --certificate db.pem \
    --key 'pkcs11:token=loam;object=db?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:pin'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := o.keys(ownerkey.Tokens{
				Context: cmd.Context(),
				PIN:     askPIN,
				Tools:   func() (tools.Tree, error) { return toolsTree(cmd.Context(), source) },
			})
			if err == nil {
				err = enroll.add(&k)
			}

			if err == nil {
				k.Sums, err = sums.key()
			}

			if err == nil && k.None() {
				err = hint.With(usage.Errorf("no key"),
					"--key and --certificate sign for Secure Boot, --sums-key signs "+
						"SHA256SUMS")
			}

			if err != nil {
				return err
			}

			out := cmd.OutOrStdout()
			m, err := sign.Build(args[0], k, func(what string) { fmt.Fprintln(out, what) })
			if err != nil {
				return err
			}

			_, err = fmt.Fprintf(out, "%s %s, %s, %s: signed by %s\n",
				m.ImageID, m.Version, m.Arch, m.Profile, strings.Join(signedBy(k), " and "))
			return err
		},
	}

	o.flags(cmd.Flags(), "")
	enroll.flags(cmd.Flags())
	sums.flags(cmd.Flags())
	cmd.Flags().StringVar(&source, "source", ".",
		"directory of Loam's sources; its tools tree reads keys in tokens")

	return cmd
}

// signedBy names the keys.
func signedBy(k sign.Keys) (names []string) {
	if c := k.Programs.Certificate; c != nil {
		names = append(names, c.Subject.String())
	}
	if k.Sums != nil {
		names = append(names, fmt.Sprintf("OpenPGP key %s", k.Sums))
	}
	return names
}

// toolsTree is the tools tree of builds for this machine's architecture.
func toolsTree(ctx context.Context, source string) (tools.Tree, error) {
	cache, err := cacheDir()
	if err != nil {
		return tools.Tree{}, err
	}

	env, err := tools.InSource(source)
	if err != nil {
		return tools.Tree{}, hint.With(err,
			"run this in Loam's source directory, or name it with --source")
	}

	env.Cache = cache
	env.Log = os.Stderr
	return tools.Ensure(ctx, env)
}

// askPIN has the PIN of a token, or the passphrase of a key, from the
// environment, or from whoever is at the terminal.
func askPIN(of string) ([]byte, error) {
	if pin, ok := os.LookupEnv("LOAM_PIN"); ok {
		return []byte(pin), nil
	}

	terminal := int(os.Stdin.Fd())
	if !term.IsTerminal(terminal) {
		return nil, hint.With(fault.With(fmt.Errorf("%s: no PIN", of), fault.ConfirmationNeeded),
			"LOAM_PIN in the environment, or pin-source=file:FILE in the URI of a token")
	}

	fmt.Fprintf(os.Stderr, "PIN of %s: ", of)
	pin, err := term.ReadPassword(terminal)
	fmt.Fprintln(os.Stderr)

	return bytes.TrimSpace(pin), err
}
