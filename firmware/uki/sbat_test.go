package uki

import (
	"bytes"
	"strings"
	"testing"
)

func TestAddSBAT(t *testing.T) {
	line := SBAT{
		Component:  "loam",
		Generation: 2,
		Vendor:     "Loam",
		Package:    "loam-node-os",
		Version:    "1.0.0",
		URL:        "https://example.com",
	}
	const want = "sbatloam,2,Loam,loam-node-os,1.0.0,https://example.com\n"

	stub, err := AddSBAT(testStub(1024, 0), line)
	if err != nil {
		t.Fatal(err)
	}
	image, err := Build(stub, testSections())
	if err != nil {
		t.Fatal(err)
	}
	checkLayout(t, image)

	got, err := Parse(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := got.Section(".sbat"); string(text) != want {
		t.Errorf("it is %q, want %q", text, want)
	}

	for name, wrong := range map[string]SBAT{
		"a field with a comma": {Component: "loam", Vendor: "a, b"},
		"too long":             {Component: strings.Repeat("x", 600)},
	} {
		if _, err := AddSBAT(testStub(1024, 0), wrong); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
