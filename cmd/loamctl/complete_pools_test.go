package main

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pools is an API server with two Leases, of which one is a ledger with two nodes that
// have a turn, one of them restored, and one on which the configuration has failed. It
// returns a kubeconfig for it.
func pools(t *testing.T) string {
	t.Helper()
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	const edge = `{"metadata": {"name": "loam-rollout-edge", "annotations": {` +
		`"rollout.loam.dev/state": "running", "rollout.loam.dev/failed": "1", ` +
		`"rollout.loam.dev/target": "1234", "holder.loam.dev/node-17": ` +
		`"{\"id\":\"1\",\"machine\":\"node-17\",\"node\":\"n\"}", ` +
		`"restored.loam.dev/node-16": "{\"id\":\"2\",\"machine\":\"node-16\",\"node\":\"m\"}"}}}`
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case leases:
			_, _ = io.WriteString(w, `{"items": [`+edge+`, {"metadata": {"name": "kubelet"}}]}`)
		case "/api/v1/nodes":
			_, _ = io.WriteString(w, `{"columnDefinitions": [{"name": "Name"}, {"name": "Status"}],
				"rows": [{"cells": ["node-18", "Ready"], "object": {"metadata": {"annotations":
				{"loam.dev/failed": "{\"target\":\"1234\"}"}}}}]}`)
		case leases + "/loam-rollout-edge":
			_, _ = io.WriteString(w, edge)
		default:
			http.NotFound(w, r)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)

	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	text := fmt.Sprintf(`current-context: here
contexts: [{name: here, context: {cluster: c, user: me}}]
clusters: [{name: c, cluster: {server: %s, certificate-authority-data: %s}}]
users: [{name: me, user: {token: t}}]
`, s.URL, base64.StdEncoding.EncodeToString(ca))
	file := filepath.Join(t.TempDir(), "admin.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestPoolsAreOffered gives the API server more time than somebody who types has: a busy
// machine may take seconds to answer.
func TestPoolsAreOffered(t *testing.T) {
	t.Setenv("KUBECONFIG", pools(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"rollout", "status", ""}, "edge\n:4\n"},
		{[]string{"rollout", "plan", ""}, "edge\n:4\n"},
		{[]string{"rollout", "now", ""}, "edge\n:4\n"},
		{[]string{"rollout", "pause", ""}, "edge\n:4\n"},
		{[]string{"rollout", "resume", ""}, "edge\n:4\n"},
		{[]string{"rollout", "status", "edge", ""}, ":4\n"},
		{[]string{"rollout", "forget", "edge", ""}, "node-16\nnode-17\n:4\n"},
		{[]string{"rollout", "forget", "other", ""}, ":4\n"},
		{[]string{"rollout", "retry", "edge", ""}, "node-18\n:4\n"},
		{[]string{"rollout", "retry", "other", ""}, ":4\n"},
		{[]string{"rollout", "status", "--kubeconfig", "none", ""}, ":4\n"},
	} {
		var out strings.Builder
		cmd := root()
		cmd.SetArgs(append([]string{"__complete"}, tt.args...))
		cmd.SetOut(&out)
		if err := cmd.ExecuteContext(ctx); err != nil || out.String() != tt.want {
			t.Errorf("%q: %q, %v, want %q", tt.args, out.String(), err, tt.want)
		}
	}
}
