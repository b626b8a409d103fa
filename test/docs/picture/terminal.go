package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Sizes of the picture of a terminal, in pixels.
const (
	fontSize   = 13
	charWidth  = 7.82 // of monospace fonts, 0.6 of their size
	lineHeight = 18
	margin     = 16
)

// terminal draws a command and what it prints as SVG.
func terminal(command, text string) []byte {
	lines := append([]string{"$ " + command}, strings.Split(strings.TrimSpace(text), "\n")...)
	widest := 0
	for _, line := range lines {
		widest = max(widest, utf8.RuneCountInString(line))
	}
	width := 2*margin + int(charWidth*float64(widest)) + 1
	height := 2*margin + lineHeight*len(lines)

	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" `+
		`viewBox="0 0 %[1]d %[2]d">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#1c1f24"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<g font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" `+
		`font-size="%d" fill="#d8dee6" xml:space="preserve">`+"\n", fontSize)
	for i, line := range lines {
		fill := ""
		if i == 0 {
			fill = ` fill="#8fd18b"`
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d"%s>`, margin, margin+lineHeight*i+fontSize, fill)
		_ = xml.EscapeText(&b, []byte(line)) // A buffer takes all.
		b.WriteString("</text>\n")
	}
	b.WriteString("</g>\n</svg>\n")
	return b.Bytes()
}
