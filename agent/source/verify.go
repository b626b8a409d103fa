package source

import (
	"fmt"

	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Verify returns the machine.yaml in a document that was found, which may be
// signed, or an error if the node must not take it. image has the keys on the
// kernel command line, and before is what the node has accepted, nil for
// nothing.
//
// Without keys there, and in the accepted document, every document counts. With
// keys, a document counts if it is the accepted one, or if one of the keys has
// signed it and its serial number is higher. That holds for every place, also
// for what a hypervisor hands over: whoever controls that owns the machine
// anyway, and one rule is easier to keep than two.
func Verify(found Document, image trust.Keys, before *Accepted) (Document, error) {
	keys, err := before.trusted(image)
	if err != nil {
		return Document{}, err
	}

	opened, err := trust.Open(found.Text)
	if err != nil {
		return Document{}, fmt.Errorf("%s: %w", found.Name, err)
	}

	found.Text = opened.Text
	found.SignedSerial = opened.Serial
	if opened.Serial > 0 {
		found.Hostname = "" // The signature does not cover it.
	}
	if len(keys) == 0 {
		return found, nil
	}

	found.Verified = true
	signed := opened.SignedBy(keys)
	switch {
	case signed && opened.Serial > before.serial():
		return found, nil
	case before != nil && before.Digest == found.digest():
		found.SignedSerial = before.SignedSerial
		return found, nil
	}
	return Document{}, refused(found, signed, before.serial())
}

// refused says why a document does not count. signed says that a trusted key
// has signed it.
func refused(d Document, signed bool, accepted uint64) error {
	switch {
	case d.SignedSerial == 0:
		return hint.With(
			fault.With(fmt.Errorf("%s is not signed, and this node takes only signed documents",
				d.Name), fault.MachineNotTrusted),
			"loamctl machine sign FILE --key KEY",
		)
	case !signed:
		return hint.With(
			fault.With(fmt.Errorf("%s is signed by no key that this node trusts, or was changed "+
				"since", d.Name), fault.MachineNotTrusted),
			"loamctl machine sign FILE --key KEY",
		)
	}
	return hint.With(
		fault.With(fmt.Errorf("%s has serial %d, and this node has accepted serial %d before",
			d.Name, d.SignedSerial, accepted), fault.MachineNotTrusted),
		"loamctl machine sign FILE --key KEY --serial %d, or a higher number", accepted+1,
	)
}

// serial is the serial number of the accepted document, 0 if none.
func (a *Accepted) serial() uint64 {
	if a == nil {
		return 0
	}
	return a.SignedSerial
}

// trusted are the keys of the accepted document, and those of the image.
func (a *Accepted) trusted(image trust.Keys) (trust.Keys, error) {
	if a == nil {
		return image, nil
	}
	keys, err := trust.ParseKeys(a.Trust)
	if err != nil {
		return nil, fmt.Errorf("keys of the accepted machine.yaml: %w", err)
	}
	return append(keys, image...), nil
}
