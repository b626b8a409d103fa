package recorded

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// agentGroup is the group of every node agent's certificate.
const agentGroup = "gardener.cloud:node-agents"

// tally is the requests that node agents have made so far, as the API server
// counts them.
type tally struct {
	// renewals are updates of Leases; watches count when they begin; rest is
	// all else, refused what the server turned away because it had too much to
	// do.
	renewals, watches, rest, refused float64
	// waited is how many seconds all of them together were in the server's
	// queues.
	waited float64
}

// flowSchemas sort agents' requests into classes, for the server counts by flow
// schema: each request when it is let in, a watch too. A name is the beginning of one.
// The priority level is the one in which they are without (flow schema global-default).
var flowSchemas = []struct{ name, rule string }{
	{
		"agents-renewals-",
		`"verbs": ["update"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]`,
	},
	{"agents-watches-", `"verbs": ["watch"], "apiGroups": ["*"], "resources": ["*"]`},
	{"agents-rest-", `"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]`},
}

// countRequests has the server count, which it does once it says that the flow
// schemas refer to something. Their names are new: the server counts on for one of an
// old name, and makes the sixth of a name in a minute wait for another minute.
func (w *fixture) countRequests() {
	w.Helper()
	w.counted = strings.ToLower(rand.Text())
	const path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
	for i, f := range flowSchemas {
		w.must(http.MethodPost, path, fmt.Sprintf(`{"metadata": {"name": %q}, "spec": {
			"priorityLevelConfiguration": {"name": "global-default"}, "matchingPrecedence": %d, "distinguisherMethod": {"type": "ByUser"},
			"rules": [{"subjects": [{"kind": "Group", "group": {"name": %q}}], "resourceRules": [{%s, "clusterScope": true, "namespaces": ["*"]}]}]
		}}`, f.name+w.counted, 9000+i, agentGroup, f.rule))
	}

	for _, f := range flowSchemas {
		w.await("flow schema "+f.name, func() error {
			status, _ := w.must(http.MethodGet, path+"/"+f.name+w.counted, "")["status"].(map[string]any)
			if status["conditions"] == nil {
				return errors.New("not seen yet")
			}
			return nil
		})
	}
}

// tally asks the server.
func (w *fixture) tally() tally {
	w.Helper()
	page, err := w.Do(http.MethodGet, "/metrics", "")
	if err != nil {
		w.Fatal(err)
	}

	var all tally
	for line := range strings.Lines(string(page)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok || !strings.HasPrefix(name, "apiserver_flowcontrol_") ||
			!strings.Contains(name, w.counted+`"`) {
			continue
		}

		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			w.Fatalf("metrics of the API server: %q: %v", line, err)
		}

		all.add(name, n)
	}

	return all
}

// add takes in a metric; name has its labels.
func (a *tally) add(name string, n float64) {
	metric, labels, _ := strings.Cut(strings.TrimPrefix(name, "apiserver_flowcontrol_"), "{")
	switch {
	case metric == "rejected_requests_total":
		a.refused += n
	case metric == "request_wait_duration_seconds_sum":
		a.waited += n
	case metric != "dispatched_requests_total":
	case strings.Contains(labels, `"agents-renewals-`):
		a.renewals += n
	case strings.Contains(labels, `"agents-watches-`):
		a.watches += n
	default:
		a.rest += n
	}
}

func (a tally) since(before tally) tally { return a.plus(before, -1) }

// plus adds other so many times.
func (a tally) plus(other tally, times float64) tally {
	return tally{
		a.renewals + times*other.renewals,
		a.watches + times*other.watches,
		a.rest + times*other.rest,
		a.refused + times*other.refused,
		a.waited + times*other.waited,
	}
}
