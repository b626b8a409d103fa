package main

import (
	"io"
	"strings"
	"testing"

	"github.com/loam-os/loam/image/inspect"
	"github.com/loam-os/loam/test/keys"
)

func TestPlanRefusesAKeyWithTheCertificateOfAnother(t *testing.T) {
	one := keys.New(t, "one")
	two := keys.New(t, "two")
	for _, test := range []struct{ name, key, certificate, want string }{
		{"its own", one.KeyFile, one.CertificateFile, ""},
		{"another's", one.KeyFile, two.CertificateFile, "it belongs to another key"},
		{"none", one.KeyFile, "", "one without the other"},
		{"no key", "", one.CertificateFile, "one without the other"},
		{"a token, which is not opened", "pkcs11:token=loam", one.CertificateFile, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd := buildCommand()
			cmd.SilenceErrors = true
			cmd.SilenceUsage = true
			cmd.SetOut(io.Discard)
			cmd.SetArgs([]string{"--plan", "--source", "../..", "--sign-key", test.key,
				"--sign-certificate", test.certificate})
			err := cmd.Execute()
			if (err == nil) != (test.want == "") ||
				err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestVerifySaysWhoHasSignedWhatFirmwareStarts(t *testing.T) {
	const entry = "EFI/Linux/loam_1.0.0_x86-64.efi"
	for _, test := range []struct {
		name  string
		image inspect.Image
		want  string
	}{
		{
			"nobody",
			inspect.Image{Disk: &inspect.Disk{}, UKIs: []inspect.UKI{{Path: entry}}},
			"boot loader: not signed\n" + entry + ": not signed\n",
		},
		{
			"two keys",
			inspect.Image{
				Disk: &inspect.Disk{LoaderSigners: []string{"db", "vendor"}},
				UKIs: []inspect.UKI{{Path: entry, Signers: []string{"db"}}},
			},
			"boot loader: signed by db, vendor\n" + entry + ": signed by db\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			if err := showSigners(&out, test.image); err != nil || out.String() != test.want {
				t.Errorf("%q, %v, want %q", out.String(), err, test.want)
			}
		})
	}
}
