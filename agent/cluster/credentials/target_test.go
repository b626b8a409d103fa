package credentials

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/loam-os/loam/agent/cluster/reach"
	"github.com/loam-os/loam/hint/fault"
)

// What the Go library says of a proxy is only the text of the status, which may be
// anything.
func TestAProxyThatDoesNotConnectIsNamed(t *testing.T) {
	for _, tt := range []struct {
		code int
		want string
		as   fault.Code
	}{
		{
			http.StatusForbidden, "the proxy does not allow connections to api.plant.example:6443: " +
				"it answers 403 Forbidden",
			fault.ProxyRefuses,
		},
		{
			http.StatusProxyAuthRequired, "the proxy wants a user and a password, or others: " +
				"it answers 407 Proxy Authentication Required",
			fault.ProxyRefuses,
		},
		{
			http.StatusBadGateway, "the proxy does not connect to api.plant.example:6443: " +
				"it answers 502 Bad Gateway",
			fault.ServerUnreachable,
		},
	} {
		t.Run(fmt.Sprint(tt.code), func(t *testing.T) {
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.code)
			}))
			defer proxy.Close()
			through, err := url.Parse(proxy.URL)
			if err != nil {
				t.Fatal(err)
			}

			const server = "https://api.plant.example:6443"
			config := Target{Server: server}.REST(Credentials{}, "abcdef.0123456789abcdef")
			config.Proxy = http.ProxyURL(through)
			client, err := rest.HTTPClientFor(config)
			if err != nil {
				t.Fatal(err)
			}
			defer client.CloseIdleConnections()
			_, err = client.Get(server + "/apis")
			if err == nil {
				t.Fatal("it answers")
			}

			got := reach.Explain(err, reach.Attempt{Server: server, Now: time.Now()})
			if diff := cmp.Diff(tt.want, got.Text); diff != "" || got.Code != tt.as || got.Hint == "" {
				t.Errorf("%+v\n%s", got, diff)
			}
		})
	}
}
