package main

import (
	"context"
	"strings"
	"testing"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/loam-os/loam/agent/osc"
)

func marshal(t *testing.T, object any) []byte {
	t.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// actuatorCall is Reconcile or Restore of an actuator.
type actuatorCall func(
	context.Context, logr.Logger, *extensionsv1alpha1.OperatingSystemConfig,
) (
	[]byte, []extensionsv1alpha1.Unit, []extensionsv1alpha1.File,
	*extensionsv1alpha1.InPlaceUpdatesStatus, error,
)

// reconcile is a document for machines that have joined.
func reconcile(
	t *testing.T,
	updates *extensionsv1alpha1.InPlaceUpdates,
) *extensionsv1alpha1.OperatingSystemConfig {
	t.Helper()
	osc := provision(t, pool{})
	osc.Spec.Purpose = extensionsv1alpha1.OperatingSystemConfigPurposeReconcile
	osc.Spec.Units, osc.Spec.Files = nil, nil
	osc.Spec.InPlaceUpdates = updates
	return osc
}

func TestReconcile(t *testing.T) {
	type answer struct {
		UserData bool
		Units    []extensionsv1alpha1.Unit
		Files    []extensionsv1alpha1.File
		Updates  *extensionsv1alpha1.InPlaceUpdatesStatus
		Error    string
	}
	other := reconcile(t, nil)
	other.Spec.Purpose = "inspect"

	for _, test := range []struct {
		name string
		osc  *extensionsv1alpha1.OperatingSystemConfig
		want answer
	}{
		{name: "a new machine", osc: provision(t, pool{}), want: answer{UserData: true}},
		{name: "machines that are replaced", osc: reconcile(t, nil)},
		{
			name: "machines that are updated in place",
			osc: reconcile(t, &extensionsv1alpha1.InPlaceUpdates{
				OperatingSystemVersion: "1.2.0",
				KubeletVersion:         "1.36.3",
			}),
			want: answer{Updates: &extensionsv1alpha1.InPlaceUpdatesStatus{OSUpdate: &extensionsv1alpha1.OSUpdate{
				Command: "loam",
				Args:    []string{"upgrade", "--to", "1.2.0"},
			}}},
		},
		{
			name: "in place, to no version",
			osc:  reconcile(t, &extensionsv1alpha1.InPlaceUpdates{}),
			want: answer{Error: "spec.inPlaceUpdates.operatingSystemVersion: empty: want a version of the machine image"},
		},
		{
			name: "an unknown purpose",
			osc:  other,
			want: answer{Error: `spec.purpose: "inspect" is not known here: want provision or reconcile`},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, call := range map[string]actuatorCall{
				"Reconcile": actuator{}.Reconcile,
				"Restore":   actuator{}.Restore,
			} {
				text, units, files, updates, err := call(t.Context(), logr.Discard(), test.osc)
				got := answer{
					UserData: len(text) > 0,
					Units:    units,
					Files:    files,
					Updates:  updates,
				}
				if err != nil {
					got.Error = err.Error()
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

// TestLoamDoesWhatOSUpdateSays: the version of the command is the one that a
// node which gets the document, status included, is updated to, and `loam
// upgrade` knows the flag.
func TestLoamDoesWhatOSUpdateSays(t *testing.T) {
	doc := reconcile(t, &extensionsv1alpha1.InPlaceUpdates{
		OperatingSystemVersion: "1.2.0",
		KubeletVersion:         "1.36.3",
	})
	updates, err := osUpdate(doc.Spec.InPlaceUpdates)
	if err != nil {
		t.Fatal(err)
	}
	doc.Status.InPlaceUpdates = updates

	// As a Secret for node agents has it: without type, purpose and what is the
	// API server's.
	doc.Spec.Type, doc.Spec.Purpose = "", ""
	read, err := osc.Decode("osc.yaml", marshal(t, doc))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := read.Update().OSVersion, updates.OSUpdate.Args[2]; got != want {
		t.Errorf("the node is updated to %q, the command says %q", got, want)
	}
	if got := strings.Join(updates.OSUpdate.Args[:2], " "); got != "upgrade --to" {
		t.Errorf("arguments %q", got)
	}
}
