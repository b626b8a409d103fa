package osc

import (
	"encoding/base64"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/unitfile"
)

// hostName is a DNS subdomain in lower case (RFC 1123).
var hostName = regexp.MustCompile(
	`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`,
)

func checkFile(report *document.Report, file located[File], all documentUnits) {
	at := file.at
	value := file.value
	CheckPath(report, at+".path", value.Path)
	if value.Permissions != nil {
		checkPermissions(report, at+".permissions", *value.Permissions)
	}

	if host := value.HostName; host != nil && (len(*host) > 253 || !hostName.MatchString(*host)) {
		report.Add(at+".hostName", document.Quote(*host)+" is not a host name",
			"write it in lower case: letters, digits, dashes and dots")
	}

	checkContent(report, at+".content", value.Content)
	checkModprobe(report, file)
	checkUnitPath(report, at+".content", value, all)
}

// checkUnitPath reports the problems of a unit file or drop-in that is among the
// files. systemd reads it as it reads those of units.
func checkUnitPath(report *document.Report, at string, file File, all documentUnits) {
	unit, text := file.unitFile()
	isDropIn := path.Base(file.Path) != unit
	switch {
	case unit == "":
	case text == "" && !isDropIn:
		report.Warn(at, "empty, which would mask the unit",
			"list the unit in units, with enable: false")
	default:
		checkUnitFile(report, at, text, readers{names: all.instances.names(unit)})
	}
}

// unitFile returns the unit that the file belongs to, as its unit file or as a
// drop-in, and its text; "" if there is none, or if the text is not in the document.
func (f File) unitFile() (unit, text string) {
	name, isUnit := strings.CutPrefix(f.Path, unitDir+"/")
	text, ok := f.Content.text()
	if !isUnit || !ok {
		return "", ""
	}

	unit, dropIn, isDropIn := strings.Cut(name, ".d/")
	_, suffix := cutSuffix(unit)
	switch {
	case isDropIn && strings.HasSuffix(dropIn, ".conf"):
		return unit, text
	case isDropIn || strings.Contains(name, "/") || !slices.Contains(unitfile.Types, suffix):
		return "", ""
	}
	return unit, text
}

// text returns content that is in the document.
func (c Content) text() (text string, ok bool) {
	if c.Inline == nil || c.Inline.Data == nil {
		return "", false
	}
	decoded, err := c.Inline.decode()
	return string(decoded), err == nil
}

// checkPermissions expects the bits of chmod(2); others are dropped. It warns
// of decimal numbers that are meant as octal, 644 for 0644: nearly all of them
// set the sticky bit, which Linux ignores on files.
func checkPermissions(report *document.Report, at string, mode uint32) {
	switch {
	case mode > 0o7777:
		report.Warnf(at, "write an octal number such as 0644 (decimal 420)",
			"%d is more than 07777", mode)
	case mode&0o1000 != 0 && looksOctal(mode):
		report.Warnf(at, fmt.Sprintf("write 0%d for the octal number", mode),
			"%d is decimal and sets the mode %#o", mode, mode)
	}
}

// looksOctal reports whether the decimal digits of mode are three octal ones.
func looksOctal(mode uint32) bool {
	return mode >= 100 && mode <= 777 && mode%10 <= 7 && mode/10%10 <= 7
}

func checkContent(report *document.Report, at string, content Content) {
	kinds := 0
	for _, given := range []bool{
		content.Inline != nil, content.SecretRef != nil, content.ImageRef != nil,
	} {
		if given {
			kinds++
		}
	}

	switch {
	case kinds == 0:
		report.Add(at, "empty", "give one of inline, secretRef and imageRef")
	case kinds > 1:
		report.Add(at, "has more than one kind", "keep one of inline, secretRef and imageRef")
	case content.Inline != nil:
		checkInline(report, at+".inline", *content.Inline)
	case content.SecretRef != nil:
		checkSecretRef(report, at+".secretRef", *content.SecretRef)
	case content.ImageRef != nil:
		checkImageRef(report, at+".imageRef", *content.ImageRef)
	}
}

// checkTransmit warns of transmitUnencoded outside of user data: it is for the
// purpose provision and has no effect on a node.
func checkTransmit(report *document.Report, file located[File], purpose Purpose) {
	plain := file.value.Content.TransmitUnencoded
	if plain != nil && *plain && purpose != "provision" {
		report.Warn(file.at+".content.transmitUnencoded", "is only for the purpose provision",
			"leave it out, or write purpose: provision")
	}
}

func checkInline(report *document.Report, at string, inline Inline) {
	switch {
	case inline.Encoding != "" && inline.Encoding != "b64":
		report.Add(at+".encoding", document.Quote(inline.Encoding)+" is unknown",
			"write b64, or leave it out for text")
	case inline.Data == nil:
		report.Warn(at+".data", "empty", `write the content here, or "" for an empty file`)
	default:
		if _, err := inline.decode(); err != nil {
			report.Add(at+".data", err.Error(), "encode the content with base64(1)")
		}
	}
}

// decode returns the content as it is written into the file, which is empty
// without data.
func (i Inline) decode() ([]byte, error) {
	switch {
	case i.Data == nil:
		return nil, nil
	case i.Encoding != "b64":
		return []byte(*i.Data), nil
	}
	content, err := base64.StdEncoding.DecodeString(*i.Data)
	if err != nil {
		return nil, fmt.Errorf("is not base64: %w", err)
	}
	return content, nil
}
