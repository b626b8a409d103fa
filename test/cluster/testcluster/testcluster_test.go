package testcluster

import (
	"encoding/pem"
	"net/http/httptest"
	"testing"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/osc"
)

func TestDocumentsForANodeAreValid(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE",
		Bytes: server.Certificate().Raw,
	}))

	t.Run("its configuration", func(t *testing.T) {
		file := "  - path: /etc/more\n    permissions: 0644\n    content: {inline: {data: text}}\n"
		asked, err := osc.Decode("osc.yaml",
			[]byte(oscText("10.0.2.2:5000", ca, 20, " --v=2", file)))
		if err := osc.Check(err, asked, osc.Env{}); err != nil {
			t.Fatal(err)
		}
		if last := asked.Spec.Files[len(asked.Spec.Files)-1]; last.Path != "/etc/more" {
			t.Errorf("the last file is %s", last.Path)
		}
	})

	t.Run("its machine.yaml", func(t *testing.T) {
		m, err := machine.Decode("machine.yaml",
			[]byte(machineText("amd64", Node, "https://10.0.2.2:6443", ca, "abcdef.0123456789abcdef")))
		if err != nil || m.Hostname != Node {
			t.Errorf("%+v, %v", m, err)
		}
	})
}

func TestCondition(t *testing.T) {
	node := map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "False", "message": "no CNI"},
		map[string]any{"type": "DiskPressure", "status": "False"},
	}}}

	for _, row := range []struct {
		name, kind, value, err string
		object                 map[string]any
	}{
		{
			name:   "as it should be",
			object: node,
			kind:   "DiskPressure",
			value:  "False",
		},
		{
			name:   "otherwise, with the reason",
			object: node,
			kind:   "Ready",
			value:  "True",
			err:    "Ready is False: no CNI",
		},
		{
			name:   "not there",
			object: node,
			kind:   "Other",
			value:  "True",
			err:    "no condition Other",
		},
		{
			name:   "no status yet",
			object: map[string]any{},
			kind:   "Ready",
			value:  "True",
			err:    "no condition Ready",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := Condition(row.kind, row.value)(row.object)
			if (row.err == "" && err != nil) ||
				(row.err != "" && (err == nil || err.Error() != row.err)) {
				t.Errorf("error %v, want %q", err, row.err)
			}
		})
	}
}
