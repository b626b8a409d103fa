// Package kubeconfig reaches the API server that a kubeconfig names, as kubectl
// does.
//
//	--kubeconfig, $KUBECONFIG, ~/.kube/config --Files--> files
//	                                                      |
//	            clientcmd: merged, context, identity <--Open
//	                               |
//	                            connect --> Server --Do, List--> answer, StatusError
package kubeconfig

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/redact"
)

// Files are those that kubectl would merge: flag if it is not empty, else what the
// environment says, else the one in the home directory.
func Files(flag string, getenv func(string) string) []string {
	if flag != "" {
		return []string{flag}
	}

	list := slices.DeleteFunc(filepath.SplitList(getenv("KUBECONFIG")), func(p string) bool {
		return p == ""
	})
	if len(list) > 0 {
		return list
	}
	return []string{filepath.Join(getenv("HOME"), ".kube", "config")}
}

// Contexts returns the names of the contexts of kubeconfigs, none if they cannot be
// read.
func Contexts(files []string) []string {
	config, err := load(files)
	if err != nil {
		return nil
	}
	return contexts(config)
}

// Open reads kubeconfigs and returns the server of a context, "" for the current
// one. Nothing is sent yet, and no program is run that gives credentials.
func Open(files []string, context string) (*Server, error) {
	config, err := load(files)
	if err != nil {
		return nil, err
	}

	s, err := open(config, context)
	if err == nil {
		return s, nil
	}
	err = fmt.Errorf("%s: %w", strings.Join(files, ", "), err)
	if fault.Of(err) == fault.Failed { // and not a file that it names and that cannot be read
		err = fault.With(err, fault.KubeconfigUnfit)
	}
	return nil, err
}

// load merges kubeconfigs. As in kubectl, not all of several files need to be there.
func load(files []string) (*api.Config, error) {
	var missing error
	found := false
	for _, file := range files {
		_, err := clientcmd.LoadFromFile(file)
		_, isOfFile := errors.AsType[*fs.PathError](err)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = cmp.Or(missing, err)
		case isOfFile:
			return nil, err
		case err != nil:
			err = fmt.Errorf("%s: not a kubeconfig%s", file, reason(err))
			return nil, hint.With(fault.With(err, fault.KubeconfigUnfit),
				"it begins with apiVersion: v1 and kind: Config; "+
					"`kubectl config view` shows the one that kubectl uses")
		default:
			found = true
		}
	}
	if !found {
		return nil, hint.With(missing, "name a kubeconfig with --kubeconfig or in KUBECONFIG")
	}

	rules := clientcmd.ClientConfigLoadingRules{Precedence: files}
	return rules.Load()
}

// reason is what is wrong with a kubeconfig that clientcmd cannot read, "" if it is
// something else altogether, of which clientcmd names its own types.
func reason(err error) string {
	if runtime.IsNotRegisteredError(err) || strings.HasPrefix(err.Error(), "couldn't get version") {
		return ""
	}
	return ": " + err.Error()
}

func contexts(config *api.Config) []string { return slices.Sorted(maps.Keys(config.Contexts)) }

// open returns the server of a context of a kubeconfig.
func open(config *api.Config, context string) (*Server, error) {
	name, err := choose(config, context)
	if err != nil {
		return nil, err
	}
	of := config.Contexts[name]
	cluster, hasCluster := config.Clusters[of.Cluster]
	if _, hasUser := config.AuthInfos[of.AuthInfo]; !hasCluster || !hasUser {
		return nil, fmt.Errorf("context %q: no cluster %q or no user %q",
			name, of.Cluster, of.AuthInfo)
	}
	if err := check(cluster); err != nil {
		return nil, err
	}

	chosen := clientcmd.NewNonInteractiveClientConfig(*config, name, nil, nil)
	client, err := chosen.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", name, err)
	}
	s, err := connect(client)
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", name, err)
	}
	return s, nil
}

// choose returns the context to use.
func choose(config *api.Config, context string) (string, error) {
	name := cmp.Or(context, config.CurrentContext)
	_, known := config.Contexts[name]
	switch {
	case known:
		return name, nil
	case len(config.Contexts) == 0:
		return "", hint.With(errors.New("no contexts"),
			"`kubectl config view` shows the kubeconfig that kubectl uses")
	case name == "":
		return "", hint.With(errors.New("no current-context"), "name a context with --context")
	}
	return "", hint.With(fmt.Errorf("no context %q", name),
		"there are: %s", strings.Join(contexts(config), ", "))
}

// check refuses clusters whose server is not proven to be the one: a configuration
// has secrets.
func check(c *api.Cluster) error {
	server, err := url.Parse(c.Server)
	if err != nil || server.Scheme != "https" || server.Host == "" {
		return fmt.Errorf("server %q: not a URL that begins with https://", redact.URLs(c.Server))
	}
	if _, err := url.Parse(c.ProxyURL); err != nil { // Its text has parts of a password.
		return fmt.Errorf("proxy-url %q: not a URL", redact.URLs(c.ProxyURL))
	}
	if c.InsecureSkipTLSVerify {
		return hint.With(
			errors.New("insecure-skip-tls-verify is not supported: a configuration has secrets"),
			"give certificate-authority",
		)
	}
	return nil
}
