package docs

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// Message is an error that says what to do about it.
type Message struct {
	// Package is where the error is made, such as agent/osc.
	Package string
	// Code is for programs; "" for most.
	Code          string
	Problem, Hint string
}

// Messages returns every error with a code or a hint that the program has, in
// the order of their packages. Five forms are found:
//
//   - a call of hint.With;
//   - a call of a function with a parameter called hint or advice;
//   - a literal of a struct with a field called Hint or hint;
//   - what a method Hints returns in place;
//   - a text with "hint: " in it.
func (p *Program) Messages() []Message {
	var found []Message
	for _, in := range p.packages {
		c := collector{scope: scope{Program: p, in: in, seen: map[*ast.BasicLit]bool{}}}
		for _, file := range in.files {
			for _, decl := range file.Decls {
				c.body = decl
				c.visitHints(decl)
				ast.Inspect(decl, c.visit)
			}
		}
		for _, file := range in.files {
			c.body = nil
			ast.Inspect(file, c.rest)
		}
		found = append(found, c.found...)
	}

	slices.SortFunc(found, func(a, b Message) int {
		return cmp.Or(
			cmp.Compare(a.Package, b.Package),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Problem, b.Problem),
			cmp.Compare(a.Hint, b.Hint),
		)
	})
	return slices.Compact(found)
}

// collector finds the messages of one package.
type collector struct {
	scope
	found []Message
}

func (c *collector) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		c.visitCall(n)
	case *ast.CompositeLit:
		c.visitStruct(n)
	}
	return true
}

// visitCall finds a message in the arguments of a call.
func (c *collector) visitCall(call *ast.CallExpr) {
	callee := c.callee(call)
	if callee != nil && (callee.FullName() == "fmt.Errorf" || callee.FullName() == "errors.New") {
		c.addWhole(c.format(call.Args))
		return
	}

	if callee != nil && callee.FullName() == module+"hint.With" {
		code, cause := c.coded(call.Args[0])
		problem := []string{unknown}
		if _, is := cause.(*ast.CallExpr); is {
			problem = c.texts(cause)
		}
		c.add(c.optional(code), problem, c.format(call.Args[1:]))
		return
	}

	signature, is := c.in.info.TypeOf(call.Fun).(*types.Signature)
	if !is {
		return
	}
	var code, problem, hint ast.Expr
	var formatted []ast.Expr
	for i := range min(signature.Params().Len(), len(call.Args)) {
		switch signature.Params().At(i).Name() {
		case "code":
			code = call.Args[i]
		case "problem", "format":
			problem, formatted = call.Args[i], call.Args[i:]
		case "hint", "advice":
			hint = call.Args[i]
		}
	}
	if hint == nil {
		return
	}

	problems := []string{unknown}
	switch {
	case problem != nil && signature.Variadic():
		problems = c.format(formatted)
	case problem != nil:
		problems = c.texts(problem)
	}
	c.add(c.optional(code), problems, c.texts(hint))
}

// coded returns the code that an error gets in a call of fault.With, nil without
// one, and the error.
func (c *collector) coded(e ast.Expr) (code, err ast.Expr) {
	call, is := e.(*ast.CallExpr)
	if !is {
		return nil, e
	}
	callee := c.callee(call)
	if callee == nil || callee.FullName() != module+faultPackage+".With" {
		return nil, e
	}
	return call.Args[1], call.Args[0]
}

// visitStruct finds a message in a literal of a struct.
func (c *collector) visitStruct(lit *ast.CompositeLit) {
	values := c.values(lit)
	hint := values["hint"]
	if hint == nil {
		return
	}
	problem := cmp.Or(values["problem"], values["reason"])
	c.add(c.optional(values["code"]), c.optional(problem), c.texts(hint))
}

// visitHints finds the hints that an error itself has (hint.Hinted). Which problem
// each is for is up to the method.
func (c *collector) visitHints(decl ast.Decl) {
	method, is := decl.(*ast.FuncDecl)
	if !is || method.Recv == nil || method.Name.Name != "Hints" || method.Body == nil {
		return
	}
	ast.Inspect(method.Body, func(n ast.Node) bool {
		returned, is := n.(*ast.ReturnStmt)
		if !is {
			return true
		}
		for _, result := range returned.Results {
			list, is := result.(*ast.CompositeLit)
			if !is {
				continue
			}
			for _, hint := range list.Elts {
				c.add([]string{""}, []string{unknown}, c.texts(hint))
			}
		}
		return true
	})
}

func (c *collector) optional(e ast.Expr) []string {
	if e == nil {
		return []string{""}
	}
	return c.texts(e)
}

// rest finds texts with a hint that no call and no struct has taken.
func (c *collector) rest(n ast.Node) bool {
	lit, is := n.(*ast.BasicLit)
	if is && !c.seen[lit] {
		if text, is := literal(lit, c.in.info); is {
			text = strings.ReplaceAll(verb.ReplaceAllString(text, unknown), "%%", "%")
			c.addWhole([]string{text})
		}
	}
	return true
}

// addWhole adds texts that have both the problem and the hint.
func (c *collector) addWhole(texts []string) {
	for _, text := range texts {
		if problem, hint, has := strings.Cut(text, "hint: "); has {
			c.add([]string{""}, []string{strings.TrimRight(problem, "\n; ")}, []string{hint})
		}
	}
}

// add adds what says something. A hint that is only known to a caller is the
// caller's message.
func (c *collector) add(codes, problems, hints []string) {
	for _, hint := range hints {
		for _, code := range codes {
			if strings.Trim(hint, unknown+" \n") == "" && strings.Trim(code, unknown) == "" {
				continue
			}
			for _, problem := range problems {
				c.found = append(c.found, Message{
					Package: c.in.name,
					Code:    strings.Trim(code, unknown),
					Problem: strings.TrimSpace(problem),
					Hint:    strings.TrimSpace(hint),
				})
			}
		}
	}
}

// sections of the page of errors, by package. A message is in the first section
// that fits; the last section has the rest.
var sections = []struct {
	title, intro string
	packages     []string
}{
	{
		title: "Start",
		intro: "The console shows these while the machine starts, or while a machine without a disk " +
			"of its own looks for its system.",
		packages: []string{
			"agent/boot", "agent/live", "agent/netboot", "agent/usbinstaller", "agent/link",
			"agent/dm", "agent/crypt", "partitions/luks", "agent/install", "agent/flash", "cmd/init", "cmd/init-live",
		},
	},
	{
		title: "machine.yaml and configuration",
		intro: "`loam status`, `loam plan` and `loamctl osc validate` show these with the document, " +
			"the line and the field.",
		packages: []string{
			"agent/document", "agent/machine", "agent/osc", "agent/nodeagent", "agent/initial",
			"agent/source", "agent/drive", "agent/network", "agent/cri", "agent/config",
			"agent/content", "agent/window", "cmd/loamctl/compose",
		},
	},
	{
		"Upgrade", "Nothing has been written when an upgrade is refused.",
		[]string{
			"agent/upgrade", "agent/power", "agent/tpm", "image/repository", "image/bundle",
			"firmware/secureboot", "firmware/bootentry",
		},
	},
	{
		title: "Node",
		intro: "The status, the journal of `loam-agent.service` and the commands on a node show " +
			"these.",
		packages: []string{"agent", "cmd/loam"},
	},
	{title: "Workstation", intro: "`loamctl` shows these."},
}

// ErrorsPage is the page of all messages.
func ErrorsPage(messages []Message) string {
	var b strings.Builder
	b.WriteString(generated("Errors", "the errors in the code"))
	b.WriteString("An error is printed as *problem*, `hint:` with what to do, and `code:`. A code stays; its class gives the exit status.\n" +
		"With `-o json` an error is one JSON object on standard error: `code`, `class`, `message`, `hint`.\n\n" +
		"## Codes\n\n" + codesTable() + "\n" +
		"The rest of this page has every error with a hint of its own, by where it is met. " + unknown + " stands for what is known only when it happens.\n")

	done := map[Message]bool{}
	for _, section := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", section.title, section.intro)
		b.WriteString("| Error | What to do | Where |\n|---|---|---|\n")
		for _, m := range messages {
			// The table has the codes themselves. Nobody looks for an error whose
			// words are known only when it happens: its hint is printed with it.
			if done[m] || m.error() == unknown || m.under([]string{faultPackage, "cmd/outcome"}) ||
				(section.packages != nil && !m.under(section.packages)) {
				continue
			}
			done[m] = true
			fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(m.error()), cell(m.Hint), m.Package)
		}
	}

	return b.String()
}

func (m Message) under(packages []string) bool {
	return slices.ContainsFunc(packages, func(p string) bool {
		return m.Package == p || strings.HasPrefix(m.Package, p+"/")
	})
}

func (m Message) error() string {
	problem := cmp.Or(m.Problem, unknown)
	if m.Code == "" {
		return problem
	}
	return "**" + m.Code + "** " + problem
}

// cell makes a text fit into a table. Angle brackets would be HTML.
func cell(text string) string {
	escape := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", ">", "&gt;")
	return strings.TrimSpace(escape.Replace(text))
}
