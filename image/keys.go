package image

import (
	"bytes"
	"strings"

	"github.com/loam-os/loam/firmware/pkcs7"
	"github.com/loam-os/loam/image/esp"
)

// Keys sign a build.
type Keys struct {
	// Programs signs loader, UKIs, and the root hash.
	Programs pkcs7.Signer
	// Enroll are the files on the ESP by which the loader makes Programs known to firmware, none for firmware that knows it; When says when.
	Enroll []esp.File
	When   When
}

func (k Keys) none() bool { return k.Programs.Certificate == nil }

// When the loader enrolls the keys on the ESP in firmware that has none (loader.conf(5), secure-boot-enroll).
type When string

// Never if there are no keys; IfSafe by itself in virtual machines, and elsewhere for who picks it from the menu, as Manual everywhere; Force always.
const (
	Never  When = ""
	Manual When = "manual"
	IfSafe When = "if-safe"
	Force  When = "force"
)

const (
	// keysDir has a directory for each set of keys. That called auto is the one which the loader takes by itself.
	keysDir    = "loader/keys"
	loaderConf = "loader/loader.conf"
)

// enrollWhen is a loader.conf that says when.
func enrollWhen(conf []byte, when When) []byte {
	const option = "secure-boot-enroll "
	var text []byte
	for line := range bytes.Lines(conf) {
		if !strings.HasPrefix(string(line), option) {
			text = append(text, line...)
		}
	}
	if when == Never {
		return text
	}
	return append(text, option+string(when)+"\n"...)
}
