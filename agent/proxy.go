package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
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
	err := changeProxy(dir, s.Text())
	for _, v := range s.Environment() {
		err = errors.Join(err, setenv(v.Name, v.Value))
	}
	if err == nil {
		err = restartUnread(ctx, dir, restart)
	}
	if err != nil {
		return fmt.Errorf("take the proxy of machine.yaml: %w", err)
	}
	return nil
}

// unreadProxy is there from before the proxy changes until containerd has restarted
// with it. If the agent ends before that, or containerd does not come up in time, the
// next start of the agent restarts containerd. After a boot it reads the file anyway.
const unreadProxy = "run/loam/proxy-unread"

// restartUnread restarts containerd if it may not have the proxy of the file yet.
func restartUnread(
	ctx context.Context, dir *durable.Dir, restart func(ctx context.Context) error,
) error {
	_, err := dir.Root().Lstat(unreadProxy)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := restart(ctx); err != nil {
		return err
	}
	return dir.Remove(unreadProxy)
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

// changeProxy makes the environment file of the units equal to text. Before it
// changes the file, it marks it as unread.
func changeProxy(dir *durable.Dir, text string) error {
	have, err := dir.Root().ReadFile(proxy.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if string(have) == text {
		return nil
	}

	if err := dir.MkdirAll(path.Dir(unreadProxy)); err != nil {
		return err
	}
	if err := dir.WriteVolatile(unreadProxy, nil, 0o644); err != nil {
		return err
	}
	return writeProxy(dir, text)
}

// writeProxy writes the environment file of the units, or removes it if it
// would be empty.
func writeProxy(dir *durable.Dir, text string) error {
	if text == "" {
		return dir.Remove(proxy.File)
	}
	_, err := dir.WriteFile(proxy.File, []byte(text), 0o600)
	return err
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
