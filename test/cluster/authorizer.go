package cluster

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
)

// Authorizer is a program that serves an authorization webhook. It is started
// with the flags --kubeconfig (of admin), --address, --certificate and --key,
// and answers /readyz with 200 as soon as it can judge.
type Authorizer struct {
	// Name is the name of the authorizer in the API server's configuration.
	Name string

	// Program is the path of the program, and Args are more flags for it.
	Program string
	Args    []string

	// Path is where it serves the webhook, as /authorize.
	Path string

	// Match is the CEL expression for the requests that the API server asks it
	// about, as "'devs' in request.groups".
	Match string
}

// runningAuthorizer is an authorizer with its address.
type runningAuthorizer struct {
	Authorizer
	address string
}

func (a runningAuthorizer) kubeconfig() string { return a.Name + ".kubeconfig" }

func (c *Cluster) addAuthorizer(a Authorizer) error {
	port, err := c.reservePort(c.network.loopback)
	if err != nil {
		return err
	}

	c.programs[a.Name] = a.Program
	c.authorizers = append(c.authorizers, runningAuthorizer{
		Authorizer: a,
		address:    net.JoinHostPort(c.network.loopback, strconv.Itoa(port)),
	})

	return nil
}

// writeAuthorization writes the API server's structured authorization
// configuration (kubernetes.io, Authorization: AuthorizationConfiguration):
// Node and RBAC, then the webhooks. Answers are not cached, so that each
// request is judged by the present state.
func (c *Cluster) writeAuthorization() error {
	type object = map[string]any
	authorizers := []object{
		{"type": "Node", "name": "node"},
		{"type": "RBAC", "name": "rbac"},
	}

	for _, a := range c.authorizers {
		authorizers = append(authorizers, object{
			"type": "Webhook",
			"name": a.Name,
			"webhook": object{
				"authorizedTTL":              "1ns",
				"unauthorizedTTL":            "1ns",
				"timeout":                    "10s",
				"failurePolicy":              "Deny",
				"subjectAccessReviewVersion": "v1",
				"matchConditionSubjectAccessReviewVersion": "v1",
				"matchConditions":                          []object{{"expression": a.Match}},
				"connectionInfo": object{
					"type":           "KubeConfigFile",
					"kubeConfigFile": filepath.Join(c.dir, a.kubeconfig()),
				},
			},
		})
		if err := c.write(a.kubeconfig(), c.webhookKubeconfig(a)); err != nil {
			return err
		}
	}

	text, err := json.MarshalIndent(object{
		"apiVersion":  "apiserver.config.k8s.io/v1",
		"kind":        "AuthorizationConfiguration",
		"authorizers": authorizers,
	}, "", "  ")
	if err != nil {
		return err
	}

	return c.write(authorizationFile, string(text))
}

// webhookKubeconfig tells the API server where the webhook is.
func (c *Cluster) webhookKubeconfig(a runningAuthorizer) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: authorizer
  cluster:
    server: https://%s%s
    certificate-authority-data: %s
users:
- name: api
  user: {}
contexts:
- name: authorizer
  context: {cluster: authorizer, user: api}
current-context: authorizer
`, a.address, a.Path, base64.StdEncoding.EncodeToString([]byte(c.ca.pem)))
}

// startAuthorizers returns as soon as all of them can judge.
func (c *Cluster) startAuthorizers(ctx context.Context) error {
	for _, a := range c.authorizers {
		kubeconfig, err := c.AdminKubeconfig()
		if err != nil {
			return err
		}

		file := a.Name + "-admin.kubeconfig"
		if err := c.write(file, kubeconfig); err != nil {
			return err
		}

		p, err := c.start(a.Name, append([]string{
			"--kubeconfig=" + file,
			"--address=" + a.address,
			"--certificate=api.crt",
			"--key=api.key",
		}, a.Args...)...)
		if err != nil {
			return err
		}

		err = c.await(ctx, p, func() error {
			_, err := do(c.anonymous,
				request{method: http.MethodGet, url: "https://" + a.address + "/readyz"})
			return err
		})
		if err != nil {
			return err
		}
	}

	return nil
}
