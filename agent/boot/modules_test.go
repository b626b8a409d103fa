package boot

import "testing"

func TestModaliasOf(t *testing.T) {
	for text, want := range map[string]string{
		"pci:v00001AF4d00001042\n":                                    "pci:v00001AF4d00001042",
		"MMC_TYPE=SD\nMMC_NAME=QEMU!\nMODALIAS=mmc:block\nDRIVER=x\n": "mmc:block",
		"": "",
	} {
		if got := modaliasOf(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
