package secret_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/cmd/loamctl/kubeconfig"
	"github.com/loam-os/loam/cmd/loamctl/secret"
	"github.com/loam-os/loam/hint"
)

const text = "spec: {}\n"

// sum is the checksum of text.
const sum = "6a5d547248f7508056915aa05f3436e0d10f4509edc40cdb0175bb8719cf0ff0"

// fake is an API server with one Secret, nil if none.
type fake struct {
	have map[string]any
	// rude are others that come first: that often, a write is a conflict.
	rude int
	// fails is what every read gets.
	fails error
	log   []string
	// lists has what is at each path, nil for a path that may not be listed.
	lists map[string][]kubeconfig.Object
}

func (f *fake) List(_ context.Context, path, _ string) ([]kubeconfig.Object, error) {
	list, ok := f.lists[path]
	if !ok {
		return nil, &kubeconfig.StatusError{Code: http.StatusForbidden}
	}
	return list, nil
}

func (f *fake) Do(_ context.Context, method, path string, body, into any) error {
	f.log = append(f.log, method)
	switch {
	case f.fails != nil:
		return f.fails
	case method == http.MethodGet && f.have == nil:
		return &kubeconfig.StatusError{Code: http.StatusNotFound}
	case method == http.MethodGet:
		return move(f.have, into)
	case f.rude > 0:
		f.rude--
		return &kubeconfig.StatusError{
			Code:    http.StatusConflict,
			Message: "the object has been modified",
		}
	}

	return move(body, &f.have)
}

// move is what JSON makes of a value.
func move(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

type object = map[string]any

// published is a Secret as Publish makes it.
func published(labels, annotations, data object) object {
	merge := func(into, more object) object {
		for k, v := range more {
			into[k] = v
		}
		return into
	}

	return object{
		"apiVersion": "v1",
		"kind":       "Secret",
		"type":       "Opaque",
		"metadata": object{
			"name":      "edge-1",
			"namespace": "kube-system",
			"labels": merge(object{
				"gardener.cloud/role":        "operating-system-config",
				"worker.gardener.cloud/pool": "edge",
			}, labels),
			"annotations": merge(object{"checksum/data-script": sum}, annotations),
		},
		"data": merge(object{"osc.yaml": "c3BlYzoge30K"}, data),
	}
}

func TestPublish(t *testing.T) {
	serial := object{"reconciliation.osc.node-agent.gardener.cloud/serial": "true"}
	foreign := object{"owner": "someone"}
	old := published(foreign, object{"checksum/data-script": "old", "note": "x"},
		object{"osc.yaml": "b2xk", "more": "eA=="})
	for _, test := range []struct {
		name    string
		api     fake
		serial  bool
		want    object
		outcome secret.Outcome
		err     string
		log     []string
	}{
		{
			name:    "there is none",
			want:    published(nil, nil, nil),
			outcome: secret.Outcome{Result: secret.Created},
			log:     []string{"GET", "POST"},
		},
		{
			name:    "what others put there stays",
			api:     fake{have: old},
			want:    published(foreign, object{"note": "x"}, object{"more": "eA=="}),
			outcome: secret.Outcome{Result: secret.Updated, Before: "old"},
			log:     []string{"GET", "PUT"},
		},
		{
			name:    "there is nothing to do",
			api:     fake{have: published(foreign, nil, nil)},
			want:    published(foreign, nil, nil),
			outcome: secret.Outcome{Result: secret.Unchanged, Before: sum},
			log:     []string{"GET"},
		},
		{
			name:    "one after the other",
			serial:  true,
			want:    published(nil, serial, nil),
			outcome: secret.Outcome{Result: secret.Created},
			log:     []string{"GET", "POST"},
		},
		{
			name:    "no more one after the other",
			api:     fake{have: published(nil, serial, nil)},
			want:    published(nil, nil, nil),
			outcome: secret.Outcome{Result: secret.Updated, Before: sum},
			log:     []string{"GET", "PUT"},
		},
		{
			name: "others come first",
			api: fake{
				have: published(nil, object{"checksum/data-script": "old"}, nil),
				rude: 2,
			},
			want:    published(nil, nil, nil),
			outcome: secret.Outcome{Result: secret.Updated, Before: "old"},
			log:     []string{"GET", "PUT", "GET", "PUT", "GET", "PUT"},
		},
		{
			name: "others come first each time",
			api:  fake{rude: 100},
			err:  "publish Secret kube-system/edge-1: the object has been modified (409)",
		},
		{
			name: "a server that refuses",
			api:  fake{fails: &kubeconfig.StatusError{Code: 403, Message: "no"}},
			err:  "publish Secret kube-system/edge-1: no (403)",
			log:  []string{"GET"},
		},
		{
			name: "no server",
			api:  fake{fails: errors.New("refused")},
			err:  "publish Secret kube-system/edge-1: refused",
			log:  []string{"GET"},
		},
		{
			name:    "a Secret with nothing in it",
			api:     fake{have: object{"kind": "Secret", "apiVersion": "v1", "type": "Opaque"}},
			want:    published(nil, nil, nil),
			outcome: secret.Outcome{Result: secret.Updated},
			log:     []string{"GET", "PUT"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			api := test.api
			s := secret.Secret{
				Name:   "edge-1",
				Pool:   "edge",
				Serial: test.serial,
				Text:   []byte(text),
			}

			outcome, err := s.Publish(t.Context(), &api)
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("error %v, want %s", err, test.err)
				}
			} else if err != nil {
				t.Error(err)
			}

			if test.err == "" {
				if diff := cmp.Diff(test.outcome, outcome); diff != "" {
					t.Errorf("outcome (-want +got):\n%s", diff)
				}
			}

			if diff := cmp.Diff(test.want, api.have); diff != "" {
				t.Errorf("the Secret (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.log, api.log); test.log != nil && diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// listed is an object with those labels and annotations, in pairs.
func listed(name string, labels, annotations map[string]string) kubeconfig.Object {
	var o kubeconfig.Object
	o.Metadata.Name = name
	o.Metadata.Labels = labels
	o.Metadata.Annotations = annotations
	return o
}

func TestASecretThatNoNodeReads(t *testing.T) {
	type words = map[string]string
	const secrets, nodes = "/api/v1/namespaces/kube-system/secrets", "/api/v1/nodes"
	const label = "worker.gardener.cloud/gardener-node-agent-secret-name"
	edge2 := listed("edge-2", nil, words{"checksum/data-script": "2"})
	other := listed("other", nil, words{"checksum/data-script": "3"})
	const flag = "\nhint: --new creates it, for nodes whose machine.yaml will name it " +
		"(source.cluster.secret)"
	const begin = "publish Secret kube-system/edge-1: there is no such Secret, and no node " +
		"reads it: nodes read "

	for _, test := range []struct {
		name  string
		lists map[string][]kubeconfig.Object
		isNew bool
		want  string
	}{
		{name: "an account that may not list"},
		{
			name:  "the first of a cluster",
			lists: map[string][]kubeconfig.Object{secrets: {}, nodes: {}},
		},
		{
			name: "a Node without a configuration",
			lists: map[string][]kubeconfig.Object{
				secrets: {},
				nodes:   {listed("foreign", words{"a": "b"}, nil)},
			},
		},
		{
			name: "a Secret without a checksum, and a Node that has applied nothing",
			lists: map[string][]kubeconfig.Object{
				secrets: {listed("plain", nil, nil)},
				nodes:   {listed("n1", nil, nil)},
			},
			want: begin + "plain" + flag,
		},
		{
			name:  "another is there",
			lists: map[string][]kubeconfig.Object{secrets: {other}},
			want:  begin + "other" + flag,
		},
		{
			name:  "another is there, and this is to be new",
			lists: map[string][]kubeconfig.Object{secrets: {other}},
			isNew: true,
		},
		{
			name: "Nodes have applied others, or are told to",
			lists: map[string][]kubeconfig.Object{
				secrets: {other, edge2},
				nodes: {
					listed("n1", nil, words{"checksum/cloud-config-data": "2"}),
					listed("n3", words{label: "third"}, words{"checksum/cloud-config-data": "2"}),
					listed("n2", nil, words{"checksum/cloud-config-data": "2"}),
					listed("n5", nil, words{"checksum/cloud-config-data": "2"}),
					listed("n4", nil, words{"checksum/cloud-config-data": "2"}),
				},
			},
			want: begin + "edge-2 (n1, n2, n4 and 1 more), other, third (n3)\n" +
				"hint: did you mean --name edge-2?" + flag,
		},
		{
			name: "a Node is told to read it",
			lists: map[string][]kubeconfig.Object{
				secrets: {other},
				nodes:   {listed("n1", words{label: "edge-1"}, nil)},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			api := fake{lists: test.lists}
			s := secret.Secret{
				Name: "edge-1",
				Pool: "edge",
				New:  test.isNew,
				Text: []byte(text),
			}
			_, err := s.Publish(t.Context(), &api)
			got := ""
			if err != nil {
				got = hint.Text(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if (err == nil) != (api.have != nil) {
				t.Errorf("the Secret is %v", api.have)
			}
		})
	}
}

func TestNamesThatNoServerTakes(t *testing.T) {
	for _, s := range []secret.Secret{
		{Pool: "a"},
		{Name: "a"},
		{Name: "A", Pool: "a"},
		{Name: "a", Pool: "a b"},
		{Name: "a.-b", Pool: "a"},
		{Name: "a", Pool: "-"},
	} {
		if s.Check() == nil {
			t.Errorf("%+v is taken", s)
		}
	}

	if err := (secret.Secret{
		Name: "gardener-node-agent-edge-0123456789abcdef",
		Pool: "Edge_1.x",
	}).Check(); err != nil {
		t.Error(err)
	}
}
