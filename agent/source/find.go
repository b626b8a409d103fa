package source

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/loam-os/loam/agent/cmdline"
	"github.com/loam-os/loam/agent/trust"
)

// The places of machine.yaml, in this order: the file or ESP file in the kernel
// parameter, the credential, QEMU's fw_cfg, the file that /init of a node that
// runs from memory got from a server or a USB installer, the ESP, a drive with
// one of DriveLabels.
const (
	Parameter      = "loam.config"
	CredentialName = "loam.machine"
	FirmwareName   = "opt/loam/machine.yaml"
	RunPath        = "/run/loam/machine.yaml"
	ESPPath        = "/loam/machine.yaml"
)

// ErrNone means that the node was given no machine.yaml.
var ErrNone = errors.New("no machine.yaml on the kernel command line, in a credential, " +
	"in fw_cfg, from where the node was started, on the ESP or on a drive")

// place is a possible place of machine.yaml; see Source.
type place struct {
	kind Kind
	from interface {
		Read(ctx context.Context) (Document, error)
	}
}

// Find reads the machine.yaml of the node from the first place that has one. If
// that cannot be read, or does not count ([Verify]), Find fails and does not
// try another place, because the node would then get another identity than
// intended.
func Find(ctx context.Context, env Env) (Document, error) {
	image, err := trust.OfCmdline(env.Cmdline)
	if err != nil {
		return Document{}, err
	}

	keys, err := env.Accepted.trusted(image)
	if err != nil {
		return Document{}, err
	}

	found, err := read(ctx, env, len(keys) > 0)
	if err != nil {
		return Document{}, err
	}
	if found.Kept {
		return found, nil // What it was signed with is not in the copy.
	}

	found, err = Verify(found, image, env.Accepted)
	if err == nil && found.Kind == FromDrive && !env.Accepted.proves(found, env.Configured) {
		return Document{}, ErrNone
	}
	return found, err
}

// read reads the machine.yaml from the first place that has one. signed says that
// keys are trusted.
func read(ctx context.Context, env Env, signed bool) (Document, error) {
	if place, ok := cmdline.Parse(env.Cmdline).Get(Parameter); ok {
		return readParameter(ctx, env, place)
	}

	places := []place{
		{FromCredential, credential{dir: env.Credentials, name: CredentialName}},
		{FromFirmware, firmwareFile{dir: env.FirmwareConfig, name: FirmwareName}},
	}

	if env.Given != "" {
		places = append(places, place{FromStart, File{Path: env.Given}})
	}
	if env.ESP != nil {
		places = append(places, place{FromESP, espFile{esp: env.ESP, path: ESPPath}})
	}
	switch {
	case env.Configured && !signed && env.Accepted.hasDrive():
		places = append(places, place{FromDrive, kept{env.Accepted}})
	case env.Drives != nil:
		places = append(places, place{FromDrive, drives{env.Drives, env.Accepted}})
	}

	for _, place := range places {
		found, err := place.from.Read(ctx)
		if errors.Is(err, ErrAbsent) {
			continue
		}
		if err != nil {
			return Document{}, err
		}

		found.Kind = place.kind
		return found, nil
	}

	return Document{}, ErrNone
}

// readParameter reads the file that loam.config= names: file:/PATH or
// esp:/PATH. It must exist.
func readParameter(ctx context.Context, env Env, place string) (Document, error) {
	kind, path, _ := strings.Cut(place, ":")
	if !strings.HasPrefix(path, "/") {
		return Document{}, fmt.Errorf("kernel parameter %s=%s: want file:/PATH or esp:/PATH",
			Parameter, place)
	}

	var from Source
	switch kind {
	case "file":
		from = File{Path: path}
	case "esp":
		from = espFile{esp: env.ESP, path: path}
	default:
		return Document{}, fmt.Errorf("kernel parameter %s=%s: want file:/PATH or esp:/PATH",
			Parameter, place)
	}

	found, err := from.Read(ctx)
	if err != nil {
		return Document{}, fmt.Errorf("kernel parameter %s: %w", Parameter, err)
	}

	found.Kind = FromParameter
	return found, nil
}
