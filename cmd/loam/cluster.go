package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/offline"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

func clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "The cluster that this node makes by itself",
		Long: `cluster is about the Kubernetes cluster of a machine whose machine.yaml has
cluster.init. Its commands read the keys of the cluster, so they need root.`,
	}
	cmd.AddCommand(clusterStatusCommand(), clusterSetCommand(), kubeconfigCommand())
	return cmd
}

func kubeconfigCommand() *cobra.Command {
	var root, address string
	access := plane.Access{}
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print a kubeconfig with a new client certificate for a short time",
		Long: `kubeconfig issues a client certificate and prints a kubeconfig with it, for kubectl
on any machine that reaches the node. Nothing can take the certificate back before
its time is over. The group system:masters may do everything; RBAC says what
others may do.`,
		Example: `  loam cluster kubeconfig --for 1h > kubeconfig
  loam cluster kubeconfig --user ada --group developers > kubeconfig`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withRecord(root, func(store plane.Store, r plane.Record, _ error) error {
				var err error
				access.Address, err = apiAddress(address, store)
				if err != nil {
					return err
				}
				text, err := store.Kubeconfig(r, access, time.Now())
				if err != nil {
					return err
				}
				_, err = cmd.OutOrStdout().Write(text)
				return err
			})
		},
	}

	cmd.Flags().DurationVar(&access.For, "for", 8*time.Hour, "`TIME` until the access ends")
	cmd.Flags().StringVar(&access.User, "user", "admin", "`NAME` that the API server knows the client by")
	cmd.Flags().StringVar(&access.Group, "group", "system:masters", "`GROUP` of the client")
	cmd.Flags().StringVar(&address, "address", "",
		"`ADDRESS` at which the client reaches the node (default: the node's own)")
	cmd.Flags().StringVar(&root, "root", "/", "`DIR` in place of the root directory of the node")
	return cmd
}

// withRecord calls do with the cluster of the node beneath root. If its record cannot be
// read, r is what the node goes on with, and damage says why.
func withRecord(
	root string, do func(store plane.Store, r plane.Record, damage error) error,
) (err error) {
	dir, err := offline.OpenRoot(root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()

	store := plane.NewStore(durable.New(dir, nil))
	_, _, damage := store.Record()
	r, found, err := store.Followed()
	if err == nil && !found {
		err = hint.With(fault.With(errors.New("this node has no cluster of its own"), fault.NotANode),
			"cluster: {init: {}} in machine.yaml makes one, and `loam status` says what it waits for")
	}
	if err != nil {
		return asRoot(err)
	}
	return do(store, r, damage)
}

// asRoot adds to the error of a file that only root may read what to do.
func asRoot(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return hint.With(fault.With(err, fault.NotPermitted), "run it as root")
	}
	return err
}

// apiAddress returns the address of the API server for clients outside: text, or
// the address that the cluster uses.
func apiAddress(text string, store plane.Store) (netip.Addr, error) {
	if text != "" {
		address, err := netip.ParseAddr(text)
		if err != nil || address.Zone() != "" || address.IsUnspecified() {
			return address, hint.With(
				fault.With(fmt.Errorf("--address %s: not an address of a machine", text), fault.Usage),
				"write one at which the client reaches the node, such as 192.0.2.10")
		}
		return address, nil
	}

	address, err := store.Address()
	if err == nil && !address.IsValid() {
		err = hint.With(errors.New("the cluster has not started on this node yet"),
			"`loam status` shows what it waits for; --address gives an address")
	}
	return address, err
}
