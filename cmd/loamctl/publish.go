package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/cmd/complete"
	"github.com/loam-os/loam/cmd/progress"
	"github.com/loam-os/loam/image/publish/distribute"
)

func publishCommand() *cobra.Command {
	login := distribute.Login{
		User:     os.Getenv("LOAM_REGISTRY_USER"),
		Password: os.Getenv("LOAM_REGISTRY_PASSWORD"),
	}

	return &cobra.Command{
		Use:               "publish REPOSITORY DESTINATION",
		ValidArgsFunction: complete.Directories,
		Short:             "Copy a repository of updates to a directory, a USB drive or a registry",
		Long: `publish brings a repository that 'loamctl bundle' has made to where nodes find it, which name
the same DESTINATION in machine.yaml: a directory, or an OCI registry. What is there already
is not copied again, and nodes see the state before or the one after.

All of REPOSITORY is verified against its signed metadata first, and nothing is copied if a file
is damaged. Each copy is read back before it replaces what was there: publishing from an intact
repository repairs a damaged one.

A registry that wants a login takes it from LOAM_REGISTRY_USER and LOAM_REGISTRY_PASSWORD. Nodes
read without one: what they take is signed.`,
		Example: `  loamctl publish updates /media/usb/updates
  loamctl publish updates oci://registry.example/plant/updates:stable
  loamctl publish updates oci+http://127.0.0.1:5000/updates:stable`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := &publishing{
				Bar: progress.New(cmd.ErrOrStderr()),
				out: cmd.OutOrStdout(),
			}
			err := distribute.To(cmd.Context(), args[0], args[1], login, p)
			p.Close()
			if err == nil {
				_, err = fmt.Fprintf(p.out, "%s: %d files, %d KiB copied\n",
					args[1], p.files, (p.bytes+1023)>>10)
			}

			return err
		},
	}
}

// publishing implements [distribute.Listener], and counts what is copied.
type publishing struct {
	*progress.Bar
	out   io.Writer
	files int
	bytes int64
}

// Copied implements [distribute.Listener].
func (p *publishing) Copied(name string, size int64) {
	p.files++
	p.bytes += size
	p.Hide()
	fmt.Fprintf(p.out, "%9d KiB  %s\n", (size+1023)>>10, name)
}

// Progress implements [distribute.Listener].
func (p *publishing) Progress(part string, done, all int64) { p.Update(part, done, all) }
