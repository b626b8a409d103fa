package kubeconfig

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/network"
	"github.com/loam-os/loam/hint/redact"
)

// timeout is for one request.
const timeout = 30 * time.Second

// connect makes the client; relative paths are relative to dir.
func connect(c cluster, u user, dir string) (*Server, error) {
	base, err := url.Parse(c.Server)
	if err != nil || base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("server %q: not a URL that begins with https://", redact.URLs(c.Server))
	}

	if err := u.supported(); err != nil {
		return nil, err
	}

	config, err := c.tls(dir)
	if err != nil {
		return nil, err
	}
	if err := u.identify(config, dir); err != nil {
		return nil, err
	}

	token, err := u.token(dir)
	if err != nil {
		return nil, err
	}

	proxy := http.ProxyFromEnvironment
	if c.Proxy != "" {
		through, err := url.Parse(c.Proxy)
		if err != nil { // Its text has parts of a password.
			return nil, fmt.Errorf("proxy-url %q: not a URL", redact.URLs(c.Proxy))
		}
		proxy = http.ProxyURL(through)
	}

	transport := &http.Transport{
		TLSClientConfig:        config,
		Proxy:                  proxy,
		OnProxyConnectResponse: network.CheckProxy,
		ForceAttemptHTTP2:      true,
	}
	return &Server{
		base:   base,
		token:  token,
		client: &http.Client{Transport: transport, Timeout: timeout},
	}, nil
}

func (u user) supported() error {
	for name, set := range map[string]bool{
		"exec":          u.Exec != nil,
		"auth-provider": u.Provider != nil,
		"username":      u.Username != "",
		"as":            u.Impersonate != "",
	} {
		if set {
			return hint.With(fmt.Errorf("user: %s is not supported", name),
				"use a kubeconfig with a client certificate or a token")
		}
	}
	return nil
}

func (c cluster) tls(dir string) (*tls.Config, error) {
	if c.Insecure {
		return nil, hint.With(
			errors.New("insecure-skip-tls-verify is not supported: a configuration has secrets"),
			"give certificate-authority",
		)
	}

	config := &tls.Config{ServerName: c.ServerName, MinVersion: tls.VersionTLS12}
	ca, err := content(dir, "certificate-authority", c.CA, c.CAData)
	if err != nil || ca == nil {
		return config, err
	}

	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(ca) {
		return nil, errors.New("certificate-authority: has no certificate in PEM")
	}

	return config, nil
}

func (u user) identify(config *tls.Config, dir string) error {
	cert, err := content(dir, "client-certificate", u.Certificate, u.CertificateData)
	if err != nil {
		return err
	}

	key, err := content(dir, "client-key", u.Key, u.KeyData)
	if err != nil || cert == nil && key == nil {
		return err
	}

	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("client-certificate: %w", err)
	}

	config.Certificates = []tls.Certificate{pair}
	return nil
}

// token is what tokenFile has, which goes before a token in the kubeconfig.
func (u user) token(dir string) (string, error) {
	if u.TokenFile == "" {
		return u.Token, nil
	}
	text, err := content(dir, "tokenFile", u.TokenFile, "")
	return strings.TrimSpace(string(text)), err
}

// content returns the content of a field: data in base64 takes precedence over
// a file; nil if both are empty.
func content(dir, field, path, data string) ([]byte, error) {
	if data != "" {
		text, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, fmt.Errorf("%s-data: %w", field, err)
		}
		return text, nil
	}

	if path == "" {
		return nil, nil
	}

	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}

	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}

	return text, nil
}
