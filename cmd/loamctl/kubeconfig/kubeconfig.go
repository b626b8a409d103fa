// Package kubeconfig reaches the API server that a kubeconfig file names.
//
//	--kubeconfig, $KUBECONFIG, ~/.kube/config --Path--> file
//	                                                     |
//	        choose: context --> cluster, user <---Open---+
//	                               |
//	                            connect --> Server --Do, List--> answer, StatusError
package kubeconfig

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// file is the part of a kubeconfig that is used here (v1.Config in
// k8s.io/client-go/tools/clientcmd/api). Base64 decodes as the Kubernetes API
// has it.
type file struct {
	CurrentContext string `yaml:"current-context"`
	Contexts       []struct {
		Name    string
		Context struct{ Cluster, User string }
	}
	Clusters []struct {
		Name    string
		Cluster cluster
	}
	Users []struct {
		Name string
		User user
	}
}

type cluster struct {
	Server     string
	CA         string `yaml:"certificate-authority"`
	CAData     string `yaml:"certificate-authority-data"`
	ServerName string `yaml:"tls-server-name"`
	Proxy      string `yaml:"proxy-url"`
	Insecure   bool   `yaml:"insecure-skip-tls-verify"`
}

type user struct {
	Certificate     string `yaml:"client-certificate"`
	CertificateData string `yaml:"client-certificate-data"`
	Key             string `yaml:"client-key"`
	KeyData         string `yaml:"client-key-data"`
	Token           string
	TokenFile       string `yaml:"tokenFile"`
	Exec            any
	Provider        any `yaml:"auth-provider"`
	Username        string
	Impersonate     string `yaml:"as"`
}

// Path is the file that kubectl would use: flag if it is not empty, else what
// the environment says, else the one in the home directory.
func Path(flag string, getenv func(string) string) (string, error) {
	if flag != "" {
		return flag, nil
	}

	list := slices.DeleteFunc(filepath.SplitList(getenv("KUBECONFIG")), func(p string) bool {
		return p == ""
	})
	switch len(list) {
	case 0:
		return filepath.Join(getenv("HOME"), ".kube", "config"), nil
	case 1:
		return list[0], nil
	}

	return "", hint.With(
		fault.With(fmt.Errorf("KUBECONFIG names %d files", len(list)), fault.KubeconfigUnfit),
		"name the one to use with --kubeconfig",
	)
}

// Contexts returns the names of the contexts of the kubeconfig at path, none if it
// cannot be read.
func Contexts(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var f file
	if err := yaml.Unmarshal(text, &f); err != nil {
		return nil
	}
	return f.contexts()
}

// Open reads the kubeconfig at path and returns the server of a context, "" for
// the current one. Nothing is sent yet.
func Open(path, context string) (*Server, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, hint.With(err, "name a kubeconfig with --kubeconfig or in KUBECONFIG")
	}

	if err != nil {
		return nil, err
	}

	s, err := parse(text, filepath.Dir(path), context)
	if err == nil {
		return s, nil
	}
	err = fmt.Errorf("%s: %w", path, err)
	if fault.Of(err) == fault.Failed { // and not a file that it names and that cannot be read
		err = fault.With(err, fault.KubeconfigUnfit)
	}
	return nil, err
}

// parse returns the server of a context of a kubeconfig; relative paths are
// relative to dir.
func parse(text []byte, dir, context string) (*Server, error) {
	var f file
	err := yaml.Unmarshal(text, &f)
	if _, wrongType := errors.AsType[*yaml.TypeError](err); wrongType {
		return nil, hint.With(errors.New("its fields are not those of a kubeconfig"),
			"it begins with apiVersion: v1 and kind: Config")
	}
	if err != nil {
		return nil, err
	}

	cluster, user, err := f.choose(context)
	if err != nil {
		return nil, err
	}
	return connect(cluster, user, dir)
}

func (f file) choose(context string) (cluster, user, error) {
	name := cmp.Or(context, f.CurrentContext)
	for _, c := range f.Contexts {
		if c.Name != name || name == "" {
			continue
		}
		for _, cl := range f.Clusters {
			for _, u := range f.Users {
				if cl.Name == c.Context.Cluster && u.Name == c.Context.User {
					return cl.Cluster, u.User, nil
				}
			}
		}
		return cluster{}, user{}, fmt.Errorf("context %q: no cluster %q or no user %q",
			name, c.Context.Cluster, c.Context.User)
	}

	if name == "" && len(f.Contexts) == 0 {
		return cluster{}, user{}, hint.With(errors.New("no contexts"),
			"is this a kubeconfig? `kubectl config view` shows the one that kubectl uses")
	}
	if name == "" {
		return cluster{}, user{}, hint.With(errors.New("no current-context"),
			"name a context with --context")
	}

	err := fmt.Errorf("no context %q", name)
	if len(f.Contexts) == 0 {
		return cluster{}, user{}, hint.With(err, "the file has no contexts; name another file")
	}
	return cluster{}, user{}, hint.With(err, "there are: %s", strings.Join(f.contexts(), ", "))
}

func (f file) contexts() []string {
	var names []string
	for _, c := range f.Contexts {
		names = append(names, c.Name)
	}
	return names
}
