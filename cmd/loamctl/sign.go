package main

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/loam-os/loam/cmd/progress"
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
	// key and certificate are "" if none.
	key, certificate string

	// pcr are the files with keys for the policy of PCR 11.
	pcr []string
}

func (o *signOptions) flags(f *pflag.FlagSet, prefix string) {
	f.StringVar(&o.key, prefix+"key", "", "private `KEY`: PKCS #8 file (PEM), or pkcs11: URI")
	f.StringVar(&o.certificate, prefix+"certificate", "",
		"certificate `FILE` of --"+prefix+"key (PEM)")
}

// pcrFlag adds the flag of the commands that sign UKIs.
func (o *signOptions) pcrFlag(f *pflag.FlagSet, prefix string) {
	f.StringArrayVar(&o.pcr, prefix+"pcr-key", nil,
		"private key `FILE` (PKCS #8, RSA of 2048 bits) for the policy of PCR 11: the TPM opens "+
			"an encrypted state only for systems that it has signed; for several, repeat it")
}

// enrollOptions are the flags for firmware that does not know the key yet.
type enrollOptions struct{ dir, when string }

func (o *enrollOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.dir, "enroll", "",
		"put what loamctl keys has written into `DIR` on the ESP, "+
			"for firmware in setup mode")
	f.StringVar(&o.when, "enroll-when", string(sign.IfSafe),
		"`WHO` enrolls it: if-safe: the loader in virtual machines, "+
			"elsewhere the operator in its menu; manual: the operator; force: the loader")
}

// sumsOptions are the flags of who signs SHA256SUMS.
type sumsOptions struct{ file string }

func (o *sumsOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.file, "sums-key", "",
		"`FILE` with the private OpenPGP key that signs SHA256SUMS, for systemd-sysupdate and gpgv")
}

// key is nil without one.
func (o sumsOptions) key() (sign.SumsSigner, error) {
	if o.file == "" {
		return nil, nil
	}
	return openpgp.ReadKey(o.file, time.Now(), askPIN)
}

// signer makes the signature, nil without a key.
func (o sumsOptions) signer() (func(text []byte) ([]byte, error), error) {
	key, err := o.key()
	if err != nil || key == nil {
		return nil, err
	}
	return key.Sign, nil
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
				err = fault.With(
					fmt.Errorf("%s: no signed variable with a key: %d bytes", file, len(content)),
					fault.KeyUnfit,
				)
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
		_, pcrErr := o.pcrKeys()
		return errors.Join(err, pcrErr)
	}
	_, err := o.keys(ownerkey.Tokens{})
	return err
}

// checkPair refuses a key without its certificate, and the other way round.
func (o signOptions) checkPair() error {
	if (o.key == "") != (o.certificate == "") {
		return hint.With(usage.Errorf("key and certificate: one without the other"), "name both")
	}
	if len(o.pcr) > 0 && o.key == "" {
		return hint.With(usage.Errorf("a key for PCR 11 without one for Secure Boot"), "name both")
	}
	return nil
}

// pcrKeys reads the keys for the policy of PCR 11.
func (o signOptions) pcrKeys() (keys []crypto.Signer, err error) {
	for _, file := range o.pcr {
		key, err := ownerkey.OpenPCR(file)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// keys opens the keys, if there are any.
func (o signOptions) keys(tokens ownerkey.Tokens) (k sign.Keys, err error) {
	if err := o.checkPair(); err != nil || o.key == "" {
		return k, err
	}
	k.PCR, err = o.pcrKeys()
	if err != nil {
		return k, err
	}
	k.Programs, err = ownerkey.Open(o.key, o.certificate, tokens)
	return k, err
}

func signCommand() *cobra.Command {
	var o signOptions
	var enroll enrollOptions
	var sums sumsOptions
	var source string
	var machineTrust []string
	cmd := &cobra.Command{
		Use:               "sign BUILD_DIR",
		ValidArgsFunction: completeBuilds(0),
		Short:             "Sign a build with your own keys, for Secure Boot and for downloads",
		Long: `sign signs, in all files of a build, the boot loader, the unified kernel images and the root
hash; the root file system stays as it is. Signatures that the build has are replaced. The
directory has the build as it was before, or all of it signed. The same keys make the same bytes.
With --sums-key it signs the list of digests, too, or only that. With --machine-trust the command
line in the unified kernel images names other keys for machine.yaml; without it, they stay. With
--pcr-key the TPM of a node opens its encrypted state only for systems which that key has signed;
without it, such a signature is removed. New states are sealed for the first of several keys.

The key is a file, or a pkcs11: URI (RFC 7512) with module-path, the token's library. Its PIN is in
the file that pin-source names, or in the environment as LOAM_PIN, or asked for.`,
		Example: `  loamctl sign build/amd64-cloud --key db.key --certificate db.pem
  loamctl sign build/amd64-cloud --key db.key --certificate db.pem --enroll ./enroll
  loamctl sign build/amd64-cloud --key db.key --certificate db.pem --machine-trust machine.pem
  loamctl sign build/amd64-cloud --key db.key --certificate db.pem --pcr-key pcr.key
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

			if err == nil {
				k.MachineTrust, err = trustOf(machineTrust, o)
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
			bar := progress.New(cmd.ErrOrStderr())
			m, err := sign.Build(cmd.Context(), args[0], k, signing{bar, out})
			bar.Close()
			if err != nil {
				return explainBuild(err, "BUILD_DIR")
			}

			_, err = fmt.Fprintf(out, "%s %s, %s, %s: signed by %s\n",
				m.ImageID, m.Version, m.Arch, m.Profile, strings.Join(signedBy(k), " and "))
			return err
		},
	}

	o.flags(cmd.Flags(), "")
	o.pcrFlag(cmd.Flags(), "")
	enroll.flags(cmd.Flags())
	sums.flags(cmd.Flags())
	trustFlag(cmd.Flags(), &machineTrust)
	cmd.Flags().StringVar(&source, "source", ".",
		"`DIR` with Loam's sources; its tools tree reads keys in tokens")

	return cmd
}

// signing implements [sign.Listener].
type signing struct {
	bar *progress.Bar
	out io.Writer
}

// Doing implements [sign.Listener].
func (s signing) Doing(what string) {
	s.bar.Hide()
	fmt.Fprintln(s.out, what)
}

// Progress implements [sign.Listener].
func (s signing) Progress(part string, done, all int64) { s.bar.Update(part, done, all) }

// trustOf returns the keys for machine.yaml, as image/sign wants them. They are
// in the unified kernel images, so that these must be signed, too.
func trustOf(files []string, o signOptions) (string, error) {
	keys, err := machineKeys(files)
	if err == nil && len(keys) > 0 && o.key == "" {
		err = hint.With(usage.Errorf("--machine-trust without --key"),
			"name both, or build with --machine-trust")
	}
	return keys.String(), err
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

	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil, hint.With(fault.With(fmt.Errorf("%s: no PIN", of), fault.ConfirmationNeeded),
			"LOAM_PIN in the environment, or pin-source=file:FILE in the URI of a token")
	}

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, unix.SIGTERM)
	defer signal.Stop(signals)
	fmt.Fprintf(os.Stderr, "PIN of %s: ", of)
	pin, err := readPIN(os.Stdin, signals)
	fmt.Fprintln(os.Stderr)
	return pin, err
}

// readPIN reads a line from a terminal, which does not show it. A signal ends it,
// and the terminal shows again what is typed.
func readPIN(terminal *os.File, signals <-chan os.Signal) ([]byte, error) {
	fd := int(terminal.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}

	// Nothing ends a read of a terminal: its goroutine ends with the program.
	read := make(chan struct{})
	var pin []byte
	var failed error
	go func() {
		defer close(read)
		pin, failed = term.ReadPassword(fd)
	}()

	select {
	case <-read:
		return bytes.TrimSpace(pin), failed
	case <-signals:
		return nil, errors.Join(context.Canceled, term.Restore(fd, before))
	}
}
