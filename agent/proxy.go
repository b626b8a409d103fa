package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/proxy"
	"github.com/loam-os/loam/agent/unit"
)

// applyProxy takes the proxy of machine.yaml: for this process, before it
// fetches anything, and for containerd. It must be called once in a process,
// as [http.ProxyFromEnvironment] reads the environment once. restart restarts
// containerd if it runs.
func applyProxy(
	ctx context.Context,
	s proxy.Settings,
	dir *durable.Dir,
	setenv func(name, value string) error,
	restart func(ctx context.Context) error,
) error {
	changed, err := writeProxy(dir, s.Text())
	for _, v := range s.Environment() {
		err = errors.Join(err, setenv(v.Name, v.Value))
	}
	if err == nil && changed {
		err = restart(ctx)
	}
	if err != nil {
		return fmt.Errorf("take the proxy of machine.yaml: %w", err)
	}
	return nil
}

// proxySettings returns the settings of machine.yaml, with what belongs to the
// node and its cluster.
func proxySettings(m machine.Machine, root *os.Root, store plane.Store) proxy.Settings {
	s := proxy.Settings{URL: m.Proxy.URL, Direct: slices.Clone(m.Proxy.NoProxy)}

	// An error here is reported when the node joins its cluster.
	if config, _, ok, err := clusterOf(m.Source, root); ok && err == nil {
		if server, err := url.Parse(config.Server); err == nil {
			s.Direct = append(s.Direct, server.Hostname())
		}
	}

	record, ok, err := store.Followed()
	if init := m.Cluster.Init; (err != nil || !ok) && init != nil {
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
func writeProxy(dir *durable.Dir, text string) (changed bool, err error) {
	have, err := dir.Root().ReadFile(proxy.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if string(have) == text {
		return false, nil
	}

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
func restartRuntime(ctx context.Context, systemd *unit.Systemd, log *zap.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, runtimeRestart)
	defer cancel()
	states, err := systemd.Show(ctx, []string{runtimeUnit})
	if err != nil || states[0].Active != "active" {
		return err
	}

	log.Info("restarting containerd with another proxy", zap.String("unit", runtimeUnit))
	return systemd.Restart(ctx, runtimeUnit)
}
