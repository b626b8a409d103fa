package proxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http/httpproxy"
)

var site = Settings{
	URL:    "http://node:p%40ss'$(w%22o%5Crd)*;@proxy.site.example:3128",
	Direct: []string{"registry.site.example", "10.0.0.0/8", "localhost", ""},
}

// rules returns what programs of Go make of the settings.
func rules(s Settings) func(*url.URL) (*url.URL, error) {
	values := map[string]string{}
	for _, v := range s.Environment() {
		values[v.Name] = v.Value
	}
	config := httpproxy.Config{
		HTTPProxy:  values["HTTP_PROXY"],
		HTTPSProxy: values["HTTPS_PROXY"],
		NoProxy:    values["NO_PROXY"],
	}
	return config.ProxyFunc()
}

func TestAddressesOfTheSiteBypassTheProxy(t *testing.T) {
	proxied := rules(site)
	for target, want := range map[string]bool{
		"https://registry.example.org/v2/":   true,
		"http://releases.example.org/":       true,
		"https://192.0.2.1/":                 true,
		"https://registry.site.example/v2/":  false,
		"https://a.registry.site.example/":   false,
		"https://10.1.2.3:6443/":             false,
		"http://localhost:8080/":             false,
		"http://127.0.0.1:2752/":             false,
		"http://169.254.169.254/latest":      false,
		"https://kubernetes.default.svc/":    false,
		"http://a.b.svc.cluster.local/":      false,
		"http://[::1]/":                      false,
		"https://svc/":                       true,
		"https://not-registry.site.example/": true,
	} {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		by, err := proxied(u)
		if err != nil || (by != nil) != want {
			t.Errorf("%s: by %v, %v, want %t", target, by, err, want)
		}
		if by != nil && by.Host != "proxy.site.example:3128" {
			t.Errorf("%s: by %s", target, by.Host)
		}
	}

	u, _ := url.Parse("https://registry.example.org/")
	if by, err := rules(Settings{})(u); by != nil || err != nil {
		t.Errorf("without a proxy: by %v, %v", by, err)
	}
	if text := (Settings{Direct: site.Direct}).Text(); text != "" {
		t.Errorf("without a proxy: %q", text)
	}
}

// TestPasswordsSurviveTheFile has a shell read the file: it quotes more than
// systemd does. It expands $ and ends a command at ;, which systemd does not.
func TestPasswordsSurviveTheFile(t *testing.T) {
	s := site
	s.URL = strings.NewReplacer("$", "", ";", "").Replace(s.URL)
	file := filepath.Join(t.TempDir(), "proxy.env")
	if err := os.WriteFile(file, []byte(s.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", ". "+file+"; printf %s \"$HTTPS_PROXY\"").Output()
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(string(out))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	if want := `p@ss'(w"o\rd)*`; password != want || u.User.Username() != "node" {
		t.Errorf("password %q, want %q", password, want)
	}
}

func TestText(t *testing.T) {
	want := "# From machine.yaml. The agent writes it.\n" +
		"HTTPS_PROXY=http://proxy:3128\nHTTP_PROXY=http://proxy:3128\n" +
		"NO_PROXY=localhost,127.0.0.0/8,::1,169.254.0.0/16,fe80::/10,.svc,.cluster.local,a.example\n"
	got := Settings{URL: "http://proxy:3128", Direct: []string{"a.example", "a.example"}}.Text()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCheckURL(t *testing.T) {
	for text, want := range map[string]string{
		"http://proxy.site.example:3128":            "",
		"https://user:secret@proxy.site.example/":   "",
		"http://[2001:db8::1]:3128":                 "",
		"proxy.site.example:3128":                   "is not a URL of http or https",
		"socks5://user:secret@proxy":                "is not a URL of http or https",
		"http://user:secret@":                       "has no host",
		"http://user:secret@proxy:31280000":         "has no port from 1 to 65535",
		"http://user:secret@proxy/path":             "has more than a host and a port",
		"http://user:secret@proxy?a":                "has more than a host and a port",
		"http://user:secret@proxy:port":             "is not a URL",
		"http://user:sec ret@proxy":                 "is not a URL",
		"http://user:secret@proxy\nNO_PROXY=secret": "is not a URL",
	} {
		err := CheckURL(text)
		if (want == "") != (err == nil) || (err != nil && err.Error() != want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "sec") {
			t.Errorf("%v has the password", err)
		}
	}
}

func TestIsDirect(t *testing.T) {
	for text, want := range map[string]bool{
		"registry.site.example": true, ".site.example": true, "Site.Example": true,
		"10.0.0.0/8": true, "2001:db8::/32": true, "192.0.2.1": true, "::1": true,
		"*": false, "": false, ".": false, "a,b": false, "a b": false, "10.0.0.0/33": false,
		"10.0.0.256": false, ".10.0.0": false,
		"http://a": false, "a\nHTTP_PROXY=b": false,
	} {
		if got := IsDirect(text); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}

// TestErrorsHaveNoPassword has a proxy refuse a request, and another be away.
func TestErrorsHaveNoPassword(t *testing.T) {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	defer refuses.Close()
	for _, address := range []string{
		strings.TrimPrefix(refuses.URL, "http://"), "127.0.0.1:1",
	} {
		proxied := rules(Settings{URL: "http://node:secret@" + address})
		client := &http.Client{Transport: &http.Transport{
			Proxy: func(r *http.Request) (*url.URL, error) { return proxied(r.URL) },
		}}
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet,
			"https://registry.example.org/v2/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Do(request); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("by %s: %v", address, err)
		}
	}
}
