package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/gardener/gardener/extensions/pkg/controller/operatingsystemconfig"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"
)

// actuator implements [operatingsystemconfig.Actuator]. It keeps nothing: what
// it answers follows from the OperatingSystemConfig alone.
type actuator struct{}

var _ operatingsystemconfig.Actuator = actuator{}

// Reconcile returns user data for purpose provision. For purpose reconcile
// there are no units or files besides those of Gardener: the image has what
// Loam needs, and Loam itself is the node agent.
func (actuator) Reconcile(
	_ context.Context, log logr.Logger, osc *extensionsv1alpha1.OperatingSystemConfig,
) (
	[]byte,
	[]extensionsv1alpha1.Unit,
	[]extensionsv1alpha1.File,
	*extensionsv1alpha1.InPlaceUpdatesStatus,
	error,
) {
	switch osc.Spec.Purpose {
	case extensionsv1alpha1.OperatingSystemConfigPurposeProvision:
		if rest := leftOut(osc); len(rest) > 0 {
			log.Info("Left out of the user data what Loam does not need to join a cluster",
				"names", rest)
		}
		text, err := userData(osc)
		return text, nil, nil, nil, err

	case extensionsv1alpha1.OperatingSystemConfigPurposeReconcile:
		update, err := osUpdate(osc.Spec.InPlaceUpdates)
		return nil, nil, nil, update, err
	}
	return nil, nil, nil, nil, fmt.Errorf(
		"spec.purpose: %q is not known here: want provision or reconcile",
		osc.Spec.Purpose,
	)
}

// osUpdate returns the command that updates the operating system in place, nil
// if the pool's machines are replaced instead. Loam takes the version from the
// specification and runs no command; the status says what is done, and what an
// operator would type.
func osUpdate(
	updates *extensionsv1alpha1.InPlaceUpdates,
) (*extensionsv1alpha1.InPlaceUpdatesStatus, error) {
	if updates == nil {
		return nil, nil
	}
	if updates.OperatingSystemVersion == "" {
		return nil, errors.New("spec.inPlaceUpdates.operatingSystemVersion: empty: " +
			"want a version of the machine image")
	}
	return &extensionsv1alpha1.InPlaceUpdatesStatus{
		OSUpdate: &extensionsv1alpha1.OSUpdate{
			Command: "loam",
			Args:    []string{"upgrade", "--to", updates.OperatingSystemVersion},
		},
	}, nil
}

// Restore implements [operatingsystemconfig.Actuator].
func (a actuator) Restore(
	ctx context.Context, log logr.Logger, osc *extensionsv1alpha1.OperatingSystemConfig,
) (
	[]byte,
	[]extensionsv1alpha1.Unit,
	[]extensionsv1alpha1.File,
	*extensionsv1alpha1.InPlaceUpdatesStatus,
	error,
) {
	return a.Reconcile(ctx, log, osc)
}

// Delete implements [operatingsystemconfig.Actuator]: the Secret with the user
// data belongs to the OperatingSystemConfig and goes with it.
func (actuator) Delete(
	context.Context,
	logr.Logger,
	*extensionsv1alpha1.OperatingSystemConfig,
) error {
	return nil
}

// ForceDelete implements [operatingsystemconfig.Actuator].
func (actuator) ForceDelete(
	context.Context,
	logr.Logger,
	*extensionsv1alpha1.OperatingSystemConfig,
) error {
	return nil
}

// Migrate implements [operatingsystemconfig.Actuator].
func (actuator) Migrate(
	context.Context,
	logr.Logger,
	*extensionsv1alpha1.OperatingSystemConfig,
) error {
	return nil
}
