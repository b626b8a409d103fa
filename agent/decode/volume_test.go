package decode

import (
	"slices"
	"testing"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/test/files"
)

// nodeAgentText is a configuration of Gardener's node agent.
const nodeAgentText = "apiVersion: nodeagent.config.gardener.cloud/v1alpha1\nkind: NodeAgentConfiguration\napiServer: {server: 'https://api'}\n" +
	"controllers: {operatingSystemConfig: {secretName: s, kubernetesVersion: 1.36.3}}\n"

// TestMountUnitOfAVolumeIsLeftToLoam, where Loam has one.
func TestMountUnitOfAVolumeIsLeftToLoam(t *testing.T) {
	claimed := volume.Record{Claim: volume.Claim{Serial: "S1"}, FileSystem: "ext4"}
	sized := config.File{
		Path:    "/var/lib/gardener-node-agent/config-v1.150.0.yaml",
		Content: config.Inline([]byte(nodeAgentText + "bootstrap: {kubeletDataVolumeSize: 53687091200}\n")),
	}
	for _, test := range []struct {
		name   string
		record volume.Record
		files  []config.File
		left   []string
	}{
		{"no volume of Loam's", volume.Record{}, nil, []string{"a.service", volumeMount}},
		{"a volume that is claimed", claimed, nil, []string{"a.service"}},
		{
			"a volume that the configuration asks for",
			volume.Record{},
			[]config.File{sized},
			[]string{"a.service"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := files.Root(t)
			if err := root.MkdirAll("var/lib/loam", 0o755); err != nil {
				t.Fatal(err)
			}
			if test.record != (volume.Record{}) {
				if err := volume.Data.WriteRecord(durable.New(root, nil), test.record); err != nil {
					t.Fatal(err)
				}
			}

			asked := config.Desired{
				Files: test.files,
				Units: []config.Unit{{Name: "a.service"}, {Name: volumeMount}},
			}
			got, err := withoutVolumeMount(root.FS(), asked)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, u := range got.Units {
				names = append(names, u.Name)
			}
			if !slices.Equal(names, test.left) || len(asked.Units) != 2 {
				t.Errorf("units %v", names)
			}
		})
	}
}
