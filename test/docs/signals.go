package docs

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/agent/status"
)

// Signal is an Event or a condition of a Node.
type Signal struct {
	Package         string
	Condition       bool
	Reason, Message string
}

// Signals returns the Events and conditions that the program may make, by
// reason. It finds calls of functions with the parameters reason and message,
// structs with such fields, and what is assigned to a condition.
func (p *Program) Signals() []Signal {
	// The words of a call come before the words of its callers: only the call
	// has the message that belongs to the reason.
	found := p.signals(false)
	found = append(found, p.signals(true)...)

	slices.SortStableFunc(
		found,
		func(a, b Signal) int {
			switch {
			case a.Reason != b.Reason:
				return strings.Compare(a.Reason, b.Reason)
			case a.Condition == b.Condition:
				return 0
			case a.Condition:
				return -1
			}
			return 1
		},
	)
	return slices.CompactFunc(found, func(a, b Signal) bool {
		return a.Reason == b.Reason &&
			a.Condition == b.Condition
	})
}

func (p *Program) signals(callers bool) []Signal {
	var found []Signal
	for _, in := range p.packages {
		s := scope{
			Program: p,
			in:      in,
			seen:    map[*ast.BasicLit]bool{},
			callers: callers,
		}
		for _, file := range in.files {
			for _, decl := range file.Decls {
				s.body = decl
				ast.Inspect(decl, func(n ast.Node) bool {
					found = append(found, s.signals(n)...)
					return true
				})
			}
		}
	}

	return found
}

// signals returns what one node of the syntax tree makes.
func (s scope) signals(n ast.Node) []Signal {
	var reason, message ast.Expr
	var condition bool
	switch n := n.(type) {
	case *ast.CallExpr:
		signature, is := s.in.info.TypeOf(n.Fun).(*types.Signature)
		if !is {
			return nil
		}
		for i := range min(signature.Params().Len(), len(n.Args)) {
			switch signature.Params().At(i).Name() {
			case "reason":
				reason = n.Args[i]
			case "message":
				message = n.Args[i]
			}
		}
		condition = signature.Results().Len() == 1 && isCondition(signature.Results().At(0).Type())
	case *ast.CompositeLit:
		values := s.values(n)
		reason, message = values["reason"], cmp.Or(
			values["message"],
			values["problem"],
			values["verb"],
		)
		condition = isCondition(s.in.info.TypeOf(n))
	case *ast.AssignStmt:
		reason, message = s.assigned(n, "Reason"), s.assigned(n, "Message")
		condition = true
	}
	if reason == nil || message == nil {
		return nil
	}

	var found []Signal
	for _, text := range s.texts(reason) {
		if !strings.Contains(text, unknown) && text != "" {
			found = append(found, Signal{
				Package:   s.in.name,
				Condition: condition,
				Reason:    text,
				Message:   strings.Join(s.texts(message), " / "),
			})
		}
	}
	return found
}

// assigned returns what an assignment gives a field of a condition, nil if
// nothing.
func (s scope) assigned(n *ast.AssignStmt, name string) ast.Expr {
	if len(n.Lhs) != len(n.Rhs) {
		return nil
	}
	for i, left := range n.Lhs {
		field, is := left.(*ast.SelectorExpr)
		if is && field.Sel.Name == name && isCondition(s.in.info.TypeOf(field.X)) {
			return n.Rhs[i]
		}
	}
	return nil
}

// isCondition reports whether t is a condition of a Node.
func isCondition(t types.Type) bool {
	named, is := t.(*types.Named)
	return is && named.Obj().Name() == "NodeCondition"
}

// values returns the fields of a literal of a struct by their names in lower
// case, none for any other literal.
func (s scope) values(lit *ast.CompositeLit) map[string]ast.Expr {
	values := map[string]ast.Expr{}
	t, is := s.in.info.TypeOf(lit).Underlying().(*types.Struct)
	if !is {
		return values
	}

	for i, element := range lit.Elts {
		if pair, is := element.(*ast.KeyValueExpr); is {
			values[strings.ToLower(pair.Key.(*ast.Ident).Name)] = pair.Value
		} else if i < t.NumFields() {
			values[strings.ToLower(t.Field(i).Name())] = element
		}
	}
	return values
}

// sample is a node with everything that has a metric.
func sample() metrics.Sample {
	s := status.Status{
		Generation: "000001-0123456789ab",
		Cluster:    &status.Cluster{Expires: time.Unix(0, 0)},
		Storage:    []status.FileSystem{{Path: "/var"}},
		Disks:      []status.Disk{{Name: "sda", Used: new(1), Spare: new(1), Hours: 1, Celsius: 1}},
	}
	return metrics.Sample{Status: s}
}

// SignalsPage is the page of metrics, Events and conditions.
func SignalsPage(signals []Signal) string {
	var b strings.Builder
	b.WriteString(generated("Metrics, Events, conditions",
		"packages agent/metrics and agent/cluster, and what they are told"))

	b.WriteString("## Metrics\n\nAt `127.0.0.1:2752/metrics`, in Prometheus' text format.\n\n" +
		"| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n")
	for _, m := range parseMetrics(sample().Text()) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n",
			m.name, m.kind, strings.Join(m.labels, ", "), cell(m.help))
	}

	b.WriteString("\n## Conditions\n\nOf the Node. `SystemdUnitsReady` says whether its units are " +
		"well; of a unit that was, it does not say that it starts or stops before that takes 30 s. " +
		"`SystemUpgradeFailed` says whether the node fell back from a system, `DiskFailing` and `DiskWorn` " +
		"what its disks say of themselves. `InPlaceUpdate` is read: its reason `ReadyForUpdate` " +
		"says that the Node is drained. While the node drains itself and " +
		"changes, it has `MaintenancePlanned` and `DrainInProgress`, and then `Drained` and " +
		"`MaintenanceInProgress`, with the reason `LoamDrain`.\n\n" +
		"| Reason | Message |\n|---|---|\n")
	for _, s := range signals {
		if s.Condition {
			fmt.Fprintf(&b, "| `%s` | %s |\n", s.Reason, cell(s.Message))
		}
	}

	b.WriteString("\n## Events\n\nOf the Node. The condition `SystemdUnitsReady` has the reasons " +
		"that begin with OSC, too.\n\n| Reason | Message | From |\n|---|---|---|\n")
	for _, s := range signals {
		if !s.Condition {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Reason, cell(s.Message), s.Package)
		}
	}
	return b.String()
}

type metric struct {
	name, kind, help string
	labels           []string
}

// parseMetrics reads Prometheus' text format.
func parseMetrics(text string) []metric {
	var all []metric
	for line := range strings.Lines(text) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 4)
		switch {
		case strings.HasPrefix(line, "# HELP "):
			all = append(all, metric{name: words[2], help: words[3]})
		case strings.HasPrefix(line, "# TYPE "):
			all[len(all)-1].kind = words[3]
		default:
			last := &all[len(all)-1]
			last.addLabels(line)
		}
	}
	return all
}

func (m *metric) addLabels(line string) {
	_, inside, has := strings.Cut(line, "{")
	if !has {
		return
	}
	inside, _, _ = strings.Cut(inside, "}")
	for pair := range strings.SplitSeq(inside, ",") {
		name, _, _ := strings.Cut(pair, "=")
		if !slices.Contains(m.labels, name) {
			m.labels = append(m.labels, name)
		}
	}
}
