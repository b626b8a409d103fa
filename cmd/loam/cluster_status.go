package main

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/etcd/room"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/agent/show"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/cmd/outcome"
)

func clusterStatusCommand() *cobra.Command {
	var root, format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the cluster: its programs, their health, its certificates",
		Long: `status shows the cluster of this node: whether etcd and the API server answer, whether
the add-ons are as they should be, what the units do, how full etcd is and how fast
its disk, and when each certificate expires and is renewed. With --root it looks at
another tree than the running node, and at its files only.`,
		Example: "  loam cluster status\n  loam cluster status -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withRecord(root, func(store plane.Store, r plane.Record, _ error) error {
				observed := observeCluster(cmd.Context(), root, store, r)
				return outcome.Write(cmd.OutOrStdout(), format, observed, observed.String)
			})
		},
	}

	outcome.FormatFlag(cmd, &format, "text")
	cmd.Flags().StringVar(&root, "root", "/", "`DIR` in place of the root directory of the node")
	return cmd
}

// clusterTimeout is how long etcd and the API server may take to answer.
const clusterTimeout = 5 * time.Second

// observeCluster looks at the programs of the running node, too.
func observeCluster(
	ctx context.Context, root string, store plane.Store, r plane.Record,
) show.OwnCluster {
	observed := show.OwnClusterOf(r, store.Certificates(r))
	s, err := readStatus(filepath.Join(root, status.Path))
	if err == nil && s.OwnCluster != nil { // The rest is worth showing without it.
		observed.Problem = s.OwnCluster.Problem
	}
	if root != "/" {
		return observed
	}

	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	var states []unit.State
	if systemd, err := unit.Connect(ctx, unit.PrivateSocket); err == nil {
		defer systemd.Close()
		states, _ = systemd.Show(ctx, r.Units()) // The rest is worth showing, too.
	}

	// A program that does not answer takes nothing from the time of the others.
	var etcdHealth, apiHealth error
	var storage *show.EtcdStorage
	var answers sync.WaitGroup
	answers.Go(func() { etcdHealth = local.EtcdHealth(ctx) })
	answers.Go(func() { apiHealth = local.APIHealth(ctx, store) })
	answers.Go(func() { storage = observeEtcd(ctx, store) })
	addOns := make([]error, len(r.AddOns))
	for i, name := range r.AddOns {
		answers.Go(func() { addOns[i] = local.AddOnHealth(ctx, store, root, r, name) })
	}
	answers.Wait()

	observed.Observe(etcdHealth, apiHealth, storage, states)
	for i, name := range r.AddOns {
		observed.ObserveAddOn(name, addOns[i])
	}
	return observed
}

// observeEtcd returns the storage of etcd, nil if etcd does not answer: its health
// says why.
func observeEtcd(ctx context.Context, store plane.Store) *show.EtcdStorage {
	client, err := local.EtcdClient(store)
	if err != nil {
		return nil
	}
	defer client.Close()

	state, err := client.Observe(ctx, nil)
	if err != nil {
		return nil
	}
	return show.EtcdStorageOf(state, room.Of(plane.EtcdDirectory))
}
