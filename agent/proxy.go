package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/proxy"
)

// applyProxy takes the proxy of machine.yaml: for this process, before it
// fetches anything, and for containerd. It must be called once in a process,
// as [http.ProxyFromEnvironment] reads the environment once.
func (n *node) applyProxy(ctx context.Context) {
	settings := n.proxy()
	changed, err := n.writeProxy(settings.Text())
	for _, v := range settings.Environment() {
		err = errors.Join(err, n.Setenv(v.Name, v.Value))
	}
	if err == nil && changed {
		err = n.restartRuntime(ctx)
	}
	if err != nil {
		n.warn(fmt.Errorf("take the proxy of machine.yaml: %w", err))
	}
}

// proxy returns the settings of machine.yaml, with what belongs to the node and
// its cluster.
func (n *node) proxy() proxy.Settings {
	s := proxy.Settings{URL: n.machine.Proxy.URL, Direct: slices.Clone(n.machine.Proxy.NoProxy)}

	// An error here is reported when the node joins its cluster.
	if config, _, ok, err := clusterOf(n.machine.Source, n.root); ok && err == nil {
		if server, err := url.Parse(config.Server); err == nil {
			s.Direct = append(s.Direct, server.Hostname())
		}
	}

	record, ok, err := n.planeStore().Record()
	if init := n.machine.Cluster.Init; (err != nil || !ok) && init != nil {
		record, ok, err = plane.NewRecord(*init), true, nil
	}
	if ok && err == nil {
		s.Direct = append(s.Direct, record.Pods...)
		s.Direct = append(s.Direct, record.Services...)
	}
	return s
}

// writeProxy writes the environment file of the units, or removes it if it
// would be empty, and reports whether it was another.
func (n *node) writeProxy(text string) (changed bool, err error) {
	have, err := n.root.ReadFile(proxy.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if string(have) == text {
		return false, nil
	}

	dir := n.records()
	if text == "" {
		return true, dir.Remove(proxy.File)
	}
	_, err = dir.WriteFile(proxy.File, []byte(text), 0o600)
	return true, err
}

// runtimeUnit reads the environment file when it starts.
const runtimeUnit = "containerd.service"

// runtimeRestart is how long containerd may take to start again. Its pods go on
// meanwhile.
const runtimeRestart = 30 * time.Second

// restartRuntime restarts containerd if it runs. At boot it starts later.
func (n *node) restartRuntime(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, runtimeRestart)
	defer cancel()
	states, err := n.systemd.Show(ctx, []string{runtimeUnit})
	if err != nil || states[0].Active != "active" {
		return err
	}

	n.Log.Info("restarting containerd with another proxy", zap.String("unit", runtimeUnit))
	return n.systemd.Restart(ctx, runtimeUnit)
}
