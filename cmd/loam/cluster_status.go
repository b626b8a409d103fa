package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/agent/show"
	"github.com/loam-os/loam/agent/unit"
)

func clusterStatusCommand() *cobra.Command {
	var root, format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the cluster: its programs, their health, its certificates",
		Long: `status shows the cluster of this node: whether etcd and the API server answer, what
their units do, and when each certificate expires and is renewed. With --root it
looks at another tree than the running node, and at its files only.`,
		Example: "  loam cluster status\n  loam cluster status -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withRecord(root, func(store plane.Store, r plane.Record) error {
				observed := observeCluster(cmd.Context(), root, store, r)
				return write(cmd.OutOrStdout(), format, observed, observed.String)
			})
		},
	}

	formatFlag(cmd, &format)
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
	observed.Observe(local.EtcdHealth(ctx), local.APIHealth(ctx, store), states)
	return observed
}
