package kubeconfig_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/cmd/loamctl/kubeconfig"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// server answers with the path it was asked for, and who asked.
func server(t *testing.T) (url, ca string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/forbidden":
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind": "Status", "message": "secrets is forbidden"}`)
		case "/gateway":
			http.Error(w, "a gateway's page", http.StatusBadGateway)
		case "/garbage":
			_, _ = io.WriteString(w, "x")
		case "/long":
			_, _ = io.WriteString(w, `{"a": "`+strings.Repeat("x", 8<<20)+`"}`)
		default:
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, `{"path": %q, "token": %q, "type": %q, "body": %q}`, r.URL.Path,
				r.Header.Get("Authorization")+r.Header.Get("Impersonate-User"),
				r.Header.Get("Content-Type"), body)
		}
	}))

	s.Config.ErrorLog = log.New(io.Discard, "", 0) // Handshakes fail here.
	s.StartTLS()
	t.Cleanup(s.Close)

	return s.URL, string(pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE",
		Bytes: s.Certificate().Raw,
	}))
}

// write writes a kubeconfig with one cluster, which is current, and one user.
func write(t *testing.T, cluster, user string) string {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
preferences: {}
current-context: here
contexts:
- {name: elsewhere, context: {cluster: none, user: me}}
- {name: here, context: {cluster: c, user: me, namespace: x}}
clusters: [{name: c, cluster: {%s}}]
users: [{name: me, user: {%s}}]
`, cluster, user)

	save(t, filepath.Join(dir, "token"), "from-file\n")
	save(t, filepath.Join(dir, "bad.pem"), "x")
	program(t, filepath.Join(dir, "give"), `#!/bin/sh
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
	"status": {"token": "given"}}'
`)
	save(t, filepath.Join(dir, "config"), text)

	return filepath.Join(dir, "config")
}

func save(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func program(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestOpenAndAsk(t *testing.T) {
	url, ca := server(t)
	data := base64.StdEncoding.EncodeToString([]byte(ca))
	good := "server: " + url + "/base, certificate-authority-data: " + data
	for _, test := range []struct {
		name, cluster, user, context string
		want                         string // the token, or what the error has
	}{
		{
			name:    "a token",
			cluster: good,
			user:    "token: t",
			want:    "Bearer t",
		},
		{
			name:    "a token in a file beside the kubeconfig",
			cluster: good,
			user:    "token: t, tokenFile: token",
			want:    "Bearer from-file",
		},
		{name: "nobody", cluster: good, want: ""},
		{
			name:    "an authority that is not the server's",
			cluster: "server: " + url,
			want:    "certificate signed by unknown authority",
		},
		{
			name:    "another name",
			cluster: good + ", tls-server-name: other.example",
			want:    "not other.example",
		},
		{
			name:    "no encryption",
			cluster: "server: http://127.0.0.1:8001",
			want:    "not a URL that begins with https://",
		},
		{
			name:    "no check of the server",
			cluster: good + ", insecure-skip-tls-verify: true",
			want:    "insecure-skip-tls-verify is not supported",
		},
		{
			name:    "an authority that is not there",
			cluster: "server: " + url + ", certificate-authority: none.pem",
			want:    "none.pem: no such file",
		},
		{
			name:    "an authority that is none",
			cluster: "server: " + url + ", certificate-authority: bad.pem",
			want:    "unable to load root certificates",
		},
		{
			name:    "an authority that is not base64",
			cluster: "server: " + url + ", certificate-authority-data: ä",
			want:    "illegal base64",
		},
		{
			name:    "a certificate without its key",
			cluster: good,
			user:    "client-certificate-data: " + data,
			want:    "client-key-data or client-key must be specified",
		},
		{
			name:    "a program that gives tokens",
			cluster: good,
			user: "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, " +
				"command: ./give}",
			want: "Bearer given",
		},
		{
			name:    "a program that is not there",
			cluster: good,
			// client-go gives the hint for each program ten times an hour.
			user: "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, " +
				"command: loam-none-" + rand.Text() + ", installHint: it is in the other box}",
			want: "it is in the other box",
		},
		{
			name:    "another's identity",
			cluster: good,
			user:    "as: root",
			want:    "root",
		},
		{
			name:    "a name and a password",
			cluster: good,
			user:    "username: me, password: p",
			want:    "Basic bWU6cA==",
		},
		{
			name:    "a library that gives tokens",
			cluster: good,
			user:    "auth-provider: {name: oidc}",
			want:    "no Auth Provider found",
		},
		{
			name:    "a proxy that is none",
			cluster: good + ", proxy-url: 'http://a b'",
			want:    "proxy-url \"",
		},
		{
			name:    "a context that is not there",
			cluster: good,
			context: "x",
			want:    "no context \"x\"\nhint: there are: elsewhere, here",
		},
		{
			name:    "a context of a cluster that is not there",
			cluster: good,
			context: "elsewhere",
			want:    `context "elsewhere": no cluster "none" or no user "me"`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var answer struct{ Path, Token, Body string }
			s, err := kubeconfig.Open([]string{write(t, test.cluster, test.user)}, test.context)
			if err == nil {
				defer s.Close()
				err = s.Do(t.Context(), http.MethodPut, "/api/v1/a",
					map[string]int{"b": 1}, &answer)
			}

			if err != nil {
				if test.want == "" || !strings.Contains(hint.Text(err), test.want) {
					t.Errorf("error %v, want %q", err, test.want)
				}
				return
			}

			want := struct{ Path, Token, Body string }{"/base/api/v1/a", test.want, `{"b":1}`}
			if diff := cmp.Diff(want, answer); diff != "" {
				t.Errorf("the server saw (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAPatchSaysItsType: with another one, the API server refuses it.
func TestAPatchSaysItsType(t *testing.T) {
	url, ca := server(t)
	file := write(t, "server: "+url+", certificate-authority-data: "+
		base64.StdEncoding.EncodeToString([]byte(ca)), "")
	s, err := kubeconfig.Open([]string{file}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	for method, want := range map[string]string{
		http.MethodPatch: "application/json-patch+json",
		http.MethodPut:   "application/json",
	} {
		var answer struct{ Type string }
		err := s.Do(t.Context(), method, "/api", []int{}, &answer)
		if err != nil || answer.Type != want {
			t.Errorf("%s: %v, type %q", method, err, answer.Type)
		}
	}
}

func TestOpenMergesFiles(t *testing.T) {
	url, ca := server(t)
	dir := t.TempDir()
	cluster, user := filepath.Join(dir, "cluster"), filepath.Join(dir, "user")
	save(t, cluster, fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: c, user: me}}]
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
`, url, base64.StdEncoding.EncodeToString([]byte(ca))))
	save(t, user, `apiVersion: v1
kind: Config
contexts: [{name: also, context: {cluster: c, user: me}}]
users: [{name: me, user: {token: t}}]
`)

	files := []string{filepath.Join(dir, "none"), cluster, user}
	s, err := kubeconfig.Open(files, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var answer struct{ Token string }
	err = s.Do(t.Context(), http.MethodGet, "/api", nil, &answer)
	if err != nil || answer.Token != "Bearer t" {
		t.Errorf("the server saw %q, error %v", answer.Token, err)
	}

	if diff := cmp.Diff([]string{"also", "here"}, kubeconfig.Contexts(files)); diff != "" {
		t.Errorf("contexts (-want +got):\n%s", diff)
	}
}

func TestAnswersThatAreNotGood(t *testing.T) {
	url, ca := server(t)
	file := write(t, "server: "+url+", certificate-authority-data: "+
		base64.StdEncoding.EncodeToString([]byte(ca)), "")
	s, err := kubeconfig.Open([]string{file}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	for _, test := range []struct {
		path, want string
		code       int
	}{
		{path: "/forbidden", want: "secrets is forbidden (403)", code: 403},
		{path: "/gateway", want: "a gateway's page (502)", code: 502},
		{
			path: "/garbage",
			want: "GET " + url + "/garbage: invalid character 'x' looking for beginning of value",
		},
		{path: "/long", want: "GET " + url + "/long: the answer is longer than 8 MiB"},
	} {
		var into map[string]any
		err := s.Do(t.Context(), http.MethodGet, test.path, nil, &into)
		status, is := errors.AsType[*kubeconfig.StatusError](err)
		if err == nil || hint.Text(err) != test.want || is != (test.code > 0) ||
			(is && status.Code != test.code) {
			t.Errorf("%s: error %v, want %s", test.path, err, test.want)
		}
	}
}

func TestFilesThatAreNoKubeconfig(t *testing.T) {
	dir := t.TempDir()
	save(t, filepath.Join(dir, "list"), "- a\n")
	save(t, filepath.Join(dir, "torn"), "a: [")
	save(t, filepath.Join(dir, "empty"), "")

	for name, want := range map[string]string{
		"none": "no such file or directory\n" +
			"hint: ",
		"list":  "/list: not a kubeconfig\nhint: it begins with apiVersion: v1",
		"torn":  "/torn: not a kubeconfig: yaml: ",
		"empty": "/empty: no contexts\nhint: ",
	} {
		_, err := kubeconfig.Open([]string{filepath.Join(dir, name)}, "")
		if err == nil || !strings.Contains(hint.Text(err), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}

		code := fault.KubeconfigUnfit
		if name == "none" {
			code = fault.FileMissing
		}
		if have := fault.Of(err); have != code {
			t.Errorf("%s: code %s, want %s", name, have, code)
		}
	}
}

func TestCodesOfKubeconfigs(t *testing.T) {
	url, ca := server(t)
	data := base64.StdEncoding.EncodeToString([]byte(ca))
	good := "server: " + url + ", certificate-authority-data: " + data
	for _, test := range []struct {
		name, cluster, user, context string
		want                         fault.Code
	}{
		{"a context that is not there", good, "", "x", fault.KubeconfigUnfit},
		{"a cluster that is not there", good, "", "elsewhere", fault.KubeconfigUnfit},
		{"no encryption", "server: http://127.0.0.1:8001", "", "", fault.KubeconfigUnfit},
		{
			"an authority that is none", "server: " + url + ", certificate-authority: bad.pem", "", "",
			fault.KubeconfigUnfit,
		},
		{
			"an authority that is not there",
			"server: " + url + ", certificate-authority: none.pem", "", "", fault.FileMissing,
		},
		{"a program of no version", good, "exec: {command: x}", "", fault.KubeconfigUnfit},
		{"the wrong authority", "server: " + url, "", "", fault.CertificateNotTrusted},
		{"a user who may not", good, "", "", fault.ClusterRefuses},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := kubeconfig.Open([]string{write(t, test.cluster, test.user)}, test.context)
			if err == nil {
				defer s.Close()
				err = s.Do(t.Context(), http.MethodGet, "/forbidden", nil, nil)
			}
			if have := fault.Of(err); have != test.want {
				t.Errorf("code %s of %v, want %s", have, err, test.want)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	for _, test := range []struct {
		name, flag, env string
		want            []string
	}{
		{"the flag goes first", "a", "b", []string{"a"}},
		{"the environment", "", "b", []string{"b"}},
		{"the environment with several files", "", ":b::c", []string{"b", "c"}},
		{"the home directory", "", ":", []string{"/home/me/.kube/config"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := map[string]string{"KUBECONFIG": test.env, "HOME": "/home/me"}
			got := kubeconfig.Files(test.flag, func(name string) string { return env[name] })
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

// TestALongListIsReadInPages lists 1,100 objects of 8 KB, more than an answer may have,
// while the API server forgets the rest of the list as often as that.
func TestALongListIsReadInPages(t *testing.T) {
	const objects = 1100
	for _, tt := range []struct {
		name         string
		forgets      int
		want, begins int
		err          string
	}{
		{"all is well", 0, objects, 1, ""},
		{"the rest is forgotten once", 1, objects, 2, ""},
		{"the rest is forgotten each time", 9, 0, 3, "it is too old (410)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, begins := lister(t, objects, tt.forgets)

			items, err := s.List(t.Context(), "/leases", "a=b")
			if len(items) != tt.want || *begins != tt.begins || textOf(err) != tt.err {
				t.Errorf("%d items after %d begins, %v", len(items), *begins, err)
			}

			s, begins = lister(t, objects, tt.forgets)
			table, err := s.Table(t.Context(), "/nodes", "a=b", true)
			if len(table.Rows) != tt.want || *begins != tt.begins || textOf(err) != tt.err {
				t.Errorf("%d rows after %d begins, %v", len(table.Rows), *begins, err)
			}
			if err != nil {
				return
			}
			last := table.Rows[objects-1].Object.Metadata.Name
			if len(table.ColumnDefinitions) != 1 || last != "object-1099" {
				t.Errorf("columns %v, last %q", table.ColumnDefinitions, last)
			}
		})
	}
}

// TestATableWithoutMetadataIsOneRequest: of a pool that is well, nothing else is asked.
func TestATableWithoutMetadataIsOneRequest(t *testing.T) {
	s, begins := lister(t, 1100, 9)
	table, err := s.Table(t.Context(), "/nodes", "a=b", false)
	if err != nil || len(table.Rows) != 1100 || *begins != 1 {
		t.Errorf("%d rows after %d begins, %v", len(table.Rows), *begins, err)
	}
}

// lister is an API server that lists objects as long as a request wants, and forgets the
// rest of a list so many times. begins counts lists that began.
func lister(t *testing.T, objects, forgets int) (s *kubeconfig.Server, begins *int) {
	t.Helper()
	begins = new(int)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if query.Get("labelSelector") != "a=b" {
			http.Error(w, "it wants others", http.StatusBadRequest)
			return
		}

		from, _ := strconv.Atoi(query.Get("continue"))
		if from == 0 {
			*begins++
		}
		if from >= 1000 && *begins <= forgets {
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, `{"kind": "Status", "message": "it is too old"}`)
			return
		}

		to := objects
		next := ""
		if limit, _ := strconv.Atoi(query.Get("limit")); limit > 0 && from+limit < objects {
			to = from + limit
			next = strconv.Itoa(to)
		}
		more := ""
		if query.Get("includeObject") != "None" {
			more = strings.Repeat("x", 8<<10)
		}
		var items, rows []string
		for i := from; i < to; i++ {
			object := fmt.Sprintf(`{"metadata": {"name": "object-%d", "labels": {"a": %q}}}`, i, more)
			items = append(items, object)
			rows = append(rows, `{"cells": ["x"], "object": `+object+`}`)
		}
		field, columns, list := "items", "", items
		if strings.Contains(r.Header.Get("Accept"), "as=Table") {
			field, list = "rows", rows
		}
		if field == "rows" && from == 0 {
			columns = `"columnDefinitions": [{"name": "Name"}], ` // The first page only.
		}
		fmt.Fprintf(w, `{"metadata": {"continue": %q}, %s%q: [%s]}`, next, columns, field,
			strings.Join(list, ","))
	}))
	t.Cleanup(server.Close)

	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	file := write(t, "server: "+server.URL+", certificate-authority-data: "+
		base64.StdEncoding.EncodeToString(ca), "")
	s, err := kubeconfig.Open([]string{file}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, begins
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
