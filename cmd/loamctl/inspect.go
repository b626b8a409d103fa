package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/cmd/outcome"
	"github.com/loam-os/loam/cmd/progress"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/inspect"
	"github.com/loam-os/loam/image/openpgp"
)

func inspectCommand() *cobra.Command {
	var format string
	var asJSON, packages bool
	cmd := &cobra.Command{
		Use:               "inspect IMAGE [OTHER]",
		ValidArgsFunction: completeBuilds(0),
		Short:             "Show the content of an image, or its differences to another",
		Long: `inspect shows what is in an image: partitions, the machine.yaml, boot entries, versions,
packages, and who has signed it; or what differs in another, and whether a node has to restart
to go from one to the other. An image is a disk or a USB installer (raw, packed, qcow2, a block
device), a UKI, also of the PXE set, or the directory of a build. loamctl verify says whether it
is undamaged. Passwords, tokens and private files of a machine.yaml are not shown.`,
		Example: "  loamctl inspect build/amd64-cloud --packages\n" +
			"  loamctl inspect build/amd64-cloud -o json\n" +
			"  loamctl inspect old.qcow2 new.raw.zst",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			bar := progress.New(cmd.ErrOrStderr())
			defer bar.Close()
			var images []inspect.Image
			for _, name := range args {
				im, err := inspect.Open(cmd.Context(), name, bar.Update)
				if err != nil {
					return err
				}
				hideSecrets(&im)
				images = append(images, im)
			}

			var what any = images[0]
			show := func(w io.Writer) {
				showImage(w, images[0], packages)
				showSums(w, args[0])
			}

			if len(images) == 2 {
				c, err := inspect.Compare(images[0], images[1])
				if err != nil {
					return err
				}
				what = c
				show = func(w io.Writer) { showComparison(w, c) }
			}

			if asJSON {
				format = "json"
			}
			return outcome.Write(cmd.OutOrStdout(), format, what, func() string {
				var text strings.Builder
				w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
				show(w)
				_ = w.Flush() // A builder takes everything.
				return text.String()
			})
		},
	}

	outcome.FormatFlag(cmd, &format, "text")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	_ = cmd.Flags().MarkDeprecated("json", "use -o json") // The flag exists.
	cmd.Flags().BoolVar(&packages, "packages", false, "list the packages, too")
	return cmd
}

// hideSecrets takes the secrets out of the machine.yaml of an image. A document
// without secrets stays as it is, with its signatures.
func hideSecrets(im *inspect.Image) {
	if im.Disk == nil {
		return
	}

	text := []byte(im.Disk.Machine)
	shown, err := machine.Redact(text)
	opened, _ := trust.Open(text) // Redact returns its error.
	switch {
	case err != nil:
		im.Disk.Machine = fmt.Sprintf("# not shown, as it may have secrets: %v\n", err)
	case shown != string(opened.Text) && opened.Serial > 0:
		im.Disk.Machine = fmt.Sprintf("# signed, serial %d\n%s", opened.Serial, shown)
	case shown != string(opened.Text):
		im.Disk.Machine = shown
	}
}

func showImage(w io.Writer, im inspect.Image, packages bool) {
	fmt.Fprintf(w, "%s (%s)\n", im.File, im.Format)
	if d := im.Disk; d != nil {
		size := mebibytes(d.Size)
		if d.DeviceSize > d.Size {
			size = fmt.Sprintf("%s, of which the partition table covers %s",
				mebibytes(d.DeviceSize), size)
		}
		fmt.Fprintf(w, "disk %s, %s, sectors of %d bytes\n", d.GUID, size, d.SectorSize)
		if d.Damage != "" {
			fmt.Fprintf(w, "damaged: %s\n", d.Damage)
		}

		fmt.Fprintln(w, "\nPARTITION\tROLE\tLABEL\tSTART\tSIZE\tUUID")
		for _, p := range d.Partitions {
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", p.Index, cmp.Or(string(p.Role), "-"),
				p.Label, mebibytes(p.Start), mebibytes(p.Size), p.UUID)
		}

		fmt.Fprintf(w, "\nloader\tsystemd-boot %s\n", cmp.Or(d.Loader, "is not there"))
		fmt.Fprintf(w, "signed by\t%s\n", cmp.Or(strings.Join(d.LoaderSigners, ", "), "nobody"))

		for _, e := range d.Enroll {
			fmt.Fprintf(w, "enrolls\t%s: PK %s; KEK %s; db %s\n", e.Name, strings.Join(e.PK, ", "),
				strings.Join(e.KEK, ", "), strings.Join(e.DB, ", "))
		}

		showMachine(w, d.Machine)
	}

	for _, u := range im.UKIs {
		fmt.Fprintln(w)
		for _, line := range [][2]string{
			{"entry", u.Path}, {"system", u.ImageID + " " + u.Version}, {"kernel", u.Kernel},
			{"root hash", u.RootHash},
			{"command line", u.Cmdline},
			{"signed by", cmp.Or(strings.Join(u.Signers, ", "), "nobody")},
			{"PCR 11 by", strings.Join(u.PCRKeys, ", ")},
			{"size", mebibytes(u.Size)},
		} {
			if line[1] != "" {
				fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
			}
		}

		for _, s := range u.Sections {
			fmt.Fprintf(w, "  %s\t%d bytes\t%.12s\n", s.Name, s.Size, s.SHA256)
		}

		fmt.Fprintf(w, "packages\t%d\n", len(u.Packages))
		for _, p := range u.Packages {
			if packages {
				fmt.Fprintf(w, "  %s\t%s\t%s\n", p.Name, p.Version, cmp.Or(p.Arch, "Go module"))
			}
		}
	}
}

// showMachine shows the machine.yaml on the ESP of a disk.
func showMachine(w io.Writer, text string) {
	if text == "" {
		fmt.Fprintln(w, "machine.yaml\tnone")
		return
	}

	title := "machine.yaml"
	if opened, err := trust.Open([]byte(text)); err == nil && opened.Serial > 0 {
		title = fmt.Sprintf("machine.yaml\tsigned, serial %d", opened.Serial)
		text = string(opened.Text)
	}

	fmt.Fprintln(w, title)
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		fmt.Fprintf(w, "  %s", line)
	}
}

// showSums says whether the sums of a build are signed. loamctl verify checks
// who has signed them.
func showSums(w io.Writer, dir string) {
	signature, err := os.ReadFile(filepath.Join(dir, image.SumsSignature))
	if err != nil {
		return // It is not signed, or no build.
	}

	id, err := openpgp.Signer(signature)
	if err != nil {
		fmt.Fprintf(w, "\n%s\t%v\n", image.SumsName, err)
		return
	}

	fmt.Fprintf(w, "\n%s\tsigned by OpenPGP key %s, which loamctl verify --sums-key checks\n",
		image.SumsName, id)
}

func showComparison(w io.Writer, c inspect.Comparison) {
	for _, part := range []struct {
		name string
		all  []inspect.Difference
	}{{"SYSTEM", c.System}, {"PACKAGES", c.Packages}, {"LAYOUT OF THE DISK", c.Layout}} {
		if len(part.all) == 0 {
			continue
		}
		fmt.Fprintln(w, part.name)
		for _, d := range part.all {
			fmt.Fprintf(w, "  %s\t%s\t-> %s\n", d.What, cmp.Or(d.A, "-"), cmp.Or(d.B, "-"))
		}
	}

	switch {
	case len(c.Layout) > 0:
		fmt.Fprintln(w,
			"An upgrade keeps the disk as it is laid out: this layout comes with flashing only.")
	case c.Restart:
		fmt.Fprintln(w, "To go from one to the other, a node restarts.")
	case len(c.System) == 0:
		fmt.Fprintln(w, "It is the same system: there is nothing to do.")
	}
}

func mebibytes(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
