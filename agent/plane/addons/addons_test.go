package addons

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/plane"
)

const image = "registry.example:5000/coredns/coredns:v1"

func TestOf(t *testing.T) {
	for _, row := range []struct {
		name     string
		settings plane.Settings
		images   []string
		want     int
		err      string
	}{
		{name: "all add-ons", images: []string{"registry.k8s.io/pause:3", image}, want: 6},
		{
			name:     "none",
			settings: plane.Settings{AddOns: []string{}},
		},
		{
			name:     "kube-proxy is a unit, and no object",
			settings: plane.Settings{AddOns: []string{plane.AddOnProxy}},
		},
		{
			name:   "a bundle without the image",
			images: []string{"registry.k8s.io/pause:3", "registry.example/autopath-coredns:v1"},
			err:    "no image coredns",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			objects, err := Of(plane.NewRecord(row.settings), row.images)
			if len(objects) != row.want || (err == nil) != (row.err == "") {
				t.Fatalf("%d objects, %v", len(objects), err)
			}
			if err != nil && !strings.Contains(err.Error(), row.err) {
				t.Errorf("%v, want %s", err, row.err)
			}
		})
	}
}

func TestTheServiceHasAnAddressOfEachFamily(t *testing.T) {
	r := plane.NewRecord(plane.Settings{
		Pods:     []string{"fd00:1::/56", "10.244.0.0/16"},
		Services: []string{"fd00:2::/112", "10.96.0.0/16"},
	})
	objects, err := Of(r, []string{image})
	if err != nil {
		t.Fatal(err)
	}

	var have struct {
		Spec struct {
			ClusterIPs     []string
			IPFamilyPolicy string
		}
	}
	text, err := json.Marshal(objects[len(objects)-1].Body())
	if err == nil {
		err = json.Unmarshal(text, &have)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"fd00:2::a", "10.96.0.10"}, have.Spec.ClusterIPs); diff != "" {
		t.Error(diff)
	}
	if have.Spec.IPFamilyPolicy != "RequireDualStack" {
		t.Error(have.Spec.IPFamilyPolicy)
	}
}

func TestDecide(t *testing.T) {
	wanted := []Object{object("a", configMap, "kept", nil)}
	plan := Decide(wanted, []Found{
		{Path: wanted[0].Path(), Managed: true},
		{Path: "/api/v1/namespaces/kube-system/configmaps/before", Managed: true},
		{Path: "/api/v1/namespaces/kube-system/configmaps/of-others"},
	})
	if len(plan.Apply) != 1 || plan.Apply[0].Path() != wanted[0].Path() {
		t.Errorf("apply %v", plan.Apply)
	}
	want := []string{"/api/v1/namespaces/kube-system/configmaps/before"}
	if diff := cmp.Diff(want, plan.Delete); diff != "" {
		t.Error(diff)
	}
}

// An object of a kind that is not listed would never be deleted.
func TestObjectsAreOfListedKinds(t *testing.T) {
	objects, err := Of(plane.NewRecord(plane.Settings{}), []string{image})
	if err != nil {
		t.Fatal(err)
	}
	policies, err := Policies()
	if err != nil {
		t.Fatal(err)
	}
	objects = append(objects, policies...)
	listed := map[kind]bool{}
	for _, k := range kinds {
		listed[k] = true
	}
	for _, o := range objects {
		if !listed[o.kind] {
			t.Errorf("%s is of a kind that is not listed", o.Path())
		}
	}
}
