// Command gardener-extension-os-loam is the extension by which a Gardener
// landscape creates machines with Loam: it answers each OperatingSystemConfig
// of type loam. It runs in a seed; see examples/gardener.
//
// It is a Go module of its own: Gardener's extension library around a pure
// function that makes a machine.yaml of what Gardener has for a machine.
// agent/machine checks the result.
//
//	OperatingSystemConfig --actuator.Reconcile--> purpose provision --> userData
//	                                |                                      |
//	                                |        providerConfig, filesOf, check (pure)
//	                                |                                      |
//	                                |                Secret <-- machine.yaml
//	                                |
//	                                +--> purpose reconcile --> command for updates
package main

import (
	"fmt"
	"os"

	"github.com/gardener/gardener/extensions/pkg/controller"
	controllercmd "github.com/gardener/gardener/extensions/pkg/controller/cmd"
	"github.com/gardener/gardener/extensions/pkg/controller/heartbeat"
	heartbeatcmd "github.com/gardener/gardener/extensions/pkg/controller/heartbeat/cmd"
	"github.com/gardener/gardener/extensions/pkg/controller/operatingsystemconfig"
	gardenerhealthz "github.com/gardener/gardener/pkg/healthz"
	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
)

// name is what Gardener calls the extension, and Type what an
// OperatingSystemConfig or a machine image of a CloudProfile says to get it.
const (
	name = "os-loam"
	Type = "loam"
)

func main() {
	if err := command().ExecuteContext(signals.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// options are the command line of the controller, all of it Gardener's own.
type options struct {
	rest       controllercmd.RESTOptions
	manager    controllercmd.ManagerOptions
	controller controllercmd.ControllerOptions
	reconciler controllercmd.ReconcilerOptions
	heartbeat  heartbeatcmd.Options
}

func command() *cobra.Command {
	namespace := os.Getenv("LEADER_ELECTION_NAMESPACE")
	o := &options{
		manager: controllercmd.ManagerOptions{
			LeaderElection:          true,
			LeaderElectionID:        controllercmd.LeaderElectionNameID(name),
			LeaderElectionNamespace: namespace,
		},
		controller: controllercmd.ControllerOptions{MaxConcurrentReconciles: 5},
		heartbeat: heartbeatcmd.Options{
			ExtensionName: name,
			Namespace:     namespace,
		},
	}
	all := controllercmd.NewOptionAggregator(
		&o.rest,
		&o.manager,
		controllercmd.PrefixOption("operatingsystemconfig-", &o.controller),
		&o.reconciler,
		controllercmd.PrefixOption("heartbeat-", &o.heartbeat),
	)

	cmd := &cobra.Command{
		Use:           "gardener-extension-os-loam",
		Short:         "Answer each OperatingSystemConfig of type loam in a seed",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := all.Complete(); err != nil {
				return err
			}
			if err := o.heartbeat.Validate(); err != nil {
				return err
			}

			mgr, err := o.newManager()
			if err != nil {
				return err
			}

			ignore := o.reconciler.Completed().IgnoreOperationAnnotation
			err = operatingsystemconfig.Add(mgr, operatingsystemconfig.AddArgs{
				Actuator:          actuator{},
				ControllerOptions: o.controller.Completed().Options(),
				Predicates: operatingsystemconfig.DefaultPredicates(
					cmd.Context(), mgr, ignore),
				Types: []string{Type},
			})
			if err != nil {
				return fmt.Errorf("add the controller: %w", err)
			}
			return mgr.Start(cmd.Context())
		},
	}
	all.AddFlags(cmd.Flags())
	cmd.AddCommand(userDataCommand())
	return cmd
}

// newManager makes a manager with the probes and the heartbeat by which
// Gardener sees that the extension is well.
func (o *options) newManager() (manager.Manager, error) {
	options := o.manager.Completed().Options()
	log.SetLogger(options.Logger)

	// A cache would have all Secrets and Leases of the seed in it.
	options.Client.Cache = &client.CacheOptions{
		DisableFor: []client.Object{&corev1.Secret{}, &coordinationv1.Lease{}},
	}

	options.NewClient = newSecretClient

	mgr, err := manager.New(o.rest.Completed().Config, options)
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	if err := controller.AddToScheme(mgr.GetScheme()); err != nil {
		return nil, fmt.Errorf("register Gardener's types: %w", err)
	}

	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add the liveness probe: %w", err)
	}
	synced := gardenerhealthz.NewCacheSyncHealthz(mgr.GetCache())
	if err := mgr.AddReadyzCheck("informer-sync", synced); err != nil {
		return nil, fmt.Errorf("add the readiness probe: %w", err)
	}

	beat := o.heartbeat.Completed()
	if err := heartbeat.Add(mgr, heartbeat.AddArgs{
		ExtensionName:        beat.ExtensionName,
		Namespace:            beat.Namespace,
		RenewIntervalSeconds: beat.RenewIntervalSeconds,
		Clock:                clock.RealClock{},
	}); err != nil {
		return nil, fmt.Errorf("add the heartbeat: %w", err)
	}
	return mgr, nil
}

func userDataCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "user-data FILE",
		Short: "Print the user data for an OperatingSystemConfig of purpose provision",
		Long: `user-data prints what machines get as user data for the OperatingSystemConfig in
FILE, as YAML or JSON. Gardener's machine-controller-manager replaces the placeholders in it,
<<BOOTSTRAP_TOKEN>> and <<MACHINE_NAME>>, when it creates a machine.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			osc, err := readConfig(args[0])
			if err != nil {
				return err
			}
			text, err := userData(osc)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
}
