package hostname_test

import (
	"net/url"
	"testing"

	"github.com/loam-os/loam/agent/hostname"
)

func TestAURLNamesAHost(t *testing.T) {
	for text, want := range map[string]bool{
		"https://api.example":        true,
		"https://api.example:6443/x": true,
		"http://192.0.2.1:65535":     true,
		"http://[2001:db8::1]:8080":  true,
		"http://u:p@h:1":             true,

		"https://":                false,
		"https://:6443":           false,
		"https://u:p@:6443":       false,
		"https://api:":            false,
		"https://api:0":           false,
		"https://api:66443":       false,
		"http://[2001:db8::1]:0":  false,
		"/etc/loam":               false,
		"mailto:ada@site.example": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := hostname.InURL(u); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
