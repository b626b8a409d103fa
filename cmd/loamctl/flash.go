package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/image/flash"
	"github.com/loam-os/loam/image/inspect"
)

// flashing is one run of the command.
type flashing struct {
	image, device, machine, wipe string
	out                          io.Writer
	in                           io.Reader
}

func flashCommand() *cobra.Command {
	var f flashing
	cmd := &cobra.Command{
		Use:   "flash IMAGE DEVICE",
		Short: "Write an image to a disk",
		Long: `Write an image (raw, packed, qcow2, or the directory of a build) to a disk, and read it back. What is on the disk is lost: the command shows which disk it
is and what is on it, and asks for its serial number. It does not touch a disk that is in use.`,
		Example: "  loamctl flash build/amd64-cloud /dev/sdb --machine machine.yaml",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.image, f.device, f.out, f.in = args[0], args[1], cmd.OutOrStdout(), cmd.InOrStdin()
			return f.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&f.machine, "machine", "", "machine.yaml of the node, to put on its ESP")
	cmd.Flags().StringVar(&f.wipe, "yes-wipe", "", "do not ask: `SERIAL` is that of the disk")
	return cmd
}

func (f *flashing) run(ctx context.Context) error {
	var config []byte
	if f.machine != "" {
		var err error
		if config, err = os.ReadFile(f.machine); err != nil {
			return err
		}
		if _, err := machine.Decode(f.machine, config); err != nil {
			return err
		}
	}
	target, err := observe(f.device)
	if err != nil {
		return err
	}
	source, err := inspect.OpenSource(f.image)
	if err != nil {
		return err
	}
	defer source.Close()
	layers := flash.NewOverlay(source)
	im, err := flash.Prepare(layers, source.Size, config)
	if err != nil {
		return fmt.Errorf("%s: %w", source.File, err)
	}
	f.show(target, im, source.File)
	if err := flash.Check(target, im); err != nil {
		return err
	}
	if err := f.confirm(target); err != nil {
		return err
	}
	disk, err := flash.Open(target.Device)
	if err != nil {
		return err
	}
	err = flash.Write(ctx, disk, target.Size, layers, im, f.progress(time.Now))
	if err = errors.Join(err, disk.Close()); err != nil {
		return fmt.Errorf("%s: %w", target.Device, err)
	}
	_, err = fmt.Fprintf(f.out, "%s: done; it can be taken out\n", target.Device)
	return err
}

// observe looks at the disk that a path leads to.
func observe(device string) (flash.Target, error) {
	at, err := filepath.EvalSymlinks(device)
	if err != nil {
		return flash.Target{}, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return flash.Target{}, err
	}
	swaps, _ := os.ReadFile("/proc/swaps") // Not on a kernel without swap.
	host := flash.Host{Sys: os.DirFS("/sys"), Udev: os.DirFS("/run/udev/data"), Mounts: string(mounts), Swaps: string(swaps)}
	return host.Observe(at)
}

// show says what would be lost.
func (f *flashing) show(t flash.Target, im flash.Image, file string) {
	w := tabwriter.NewWriter(f.out, 0, 0, 2, ' ', 0)
	kind := "fixed"
	if t.Removable {
		kind = "removable"
	}
	fmt.Fprintf(w, "disk\t%s\nmodel\t%s\nserial\t%s\nsize\t%s, sectors of %d bytes, %s\n", t.Device, cmp.Or(t.Model, "unknown"), cmp.Or(t.Serial, "none"),
		mebibytes(t.Size), t.SectorSize, kind)
	for i, line := range content(t) {
		fmt.Fprintf(w, "%s\t%s\n", map[bool]string{true: "holds"}[i == 0], line)
	}
	fmt.Fprintf(w, "image\t%s, %s to write\n", file, mebibytes(im.Bytes()))
	_ = w.Flush()
}

// content is what is on a disk now, as far as it can be told.
func content(t flash.Target) []string {
	f, err := os.Open(t.Device)
	if err != nil {
		return []string{err.Error()}
	}
	defer f.Close()
	im, err := inspect.Read(f, t.Size)
	if im.Disk == nil {
		return []string{"no GUID partition table: " + cmp.Or(firstLine(err), "nothing")}
	}
	var lines []string
	for _, p := range im.Disk.Partitions {
		lines = append(lines, fmt.Sprintf("partition %d, %s, %s", p.Index, mebibytes(p.Size), cmp.Or(p.Label, "no label")))
	}
	for _, u := range im.UKIs {
		lines = append(lines, "boot entry of "+u.ImageID+" "+u.Version)
	}
	return lines
}

func firstLine(err error) string {
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// confirm has a person say which disk it is.
func (f *flashing) confirm(t flash.Target) error {
	said := f.wipe
	if said == "" {
		fmt.Fprintf(f.out, "All of it is lost. Type %s to go on: ", t.Word())
		line, err := bufio.NewReader(f.in).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		said = strings.TrimSpace(line)
	}
	if said != t.Word() {
		return fmt.Errorf("%s: its serial number is %q, not %q: nothing was written", t.Device, t.Word(), said)
	}
	return nil
}

// progress shows how far it is: on a terminal in one line, else at the end of each part.
func (f *flashing) progress(now func() time.Time) flash.Progress {
	terminal := false
	if file, ok := f.out.(*os.File); ok {
		terminal = term.IsTerminal(int(file.Fd()))
	}
	var part string
	var began, shown time.Time
	return func(doing string, done, all int64) {
		t := now()
		if doing != part {
			part, began, shown = doing, t, time.Time{}
		}
		if done < all && (!terminal || t.Sub(shown) < time.Second/5) {
			return
		}
		shown = t
		speed := float64(done) / 1e6 / max(t.Sub(began).Seconds(), 1e-3)
		line := fmt.Sprintf("%-6s  %3d %%  %s of %s  %.0f MB/s", doing, 100*done/max(all, 1), mebibytes(done), mebibytes(all), speed)
		switch {
		case !terminal:
			fmt.Fprintln(f.out, line)
		case done < all:
			fmt.Fprintf(f.out, "\r%s\x1b[K", line)
		default:
			fmt.Fprintf(f.out, "\r%s\x1b[K\n", line)
		}
	}
}
