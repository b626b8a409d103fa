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
)

const text = "spec: {}\n"

// sum is the checksum of text.
const sum = "6a5d547248f7508056915aa05f3436e0d10f4509edc40cdb0175bb8719cf0ff0"

// fake is an API server with one Secret, nil for none.
type fake struct {
	have map[string]any
	// rude are others that come first: that often, a write is a conflict.
	rude int
	// fails is what every read gets.
	fails error
	log   []string
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
