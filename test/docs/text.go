package docs

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

const (
	// unknown stands in a text for what is only known at run time.
	unknown = "…"
	// maxTexts is how many texts an expression may have before it is unknown.
	maxTexts = 24
	// maxParts is how many texts a part of a text may have before it is
	// unknown.
	maxParts = 3
	// maxDepth is how many calls and variables are followed.
	maxDepth = 6
)

// scope is where an expression stands: in a function of a package, nil for
// none.
type scope struct {
	*Program
	in    *source
	body  ast.Node
	depth int
	// seen are the literals that became part of a text.
	seen map[*ast.BasicLit]bool
	// callers follows a parameter to the callers in the same package.
	callers bool
}

// texts returns the texts that an expression may have, with unknown in place of
// what the code does not say.
func (s scope) texts(e ast.Expr) []string {
	s.mark(e)
	value := s.in.info.Types[e].Value
	if value != nil && value.Kind() == constant.String && !s.isOfTheHost(e) {
		return []string{constant.StringVal(value)}
	}
	if s.depth > maxDepth {
		return []string{unknown}
	}
	s.depth++

	switch e := e.(type) {
	case *ast.ParenExpr:
		return s.texts(e.X)
	case *ast.BinaryExpr:
		return join(s.few(e.X), s.few(e.Y))
	case *ast.Ident:
		return s.variable(e)
	case *ast.IndexExpr:
		return s.elements(e.X)
	case *ast.CallExpr:
		return s.call(e, 0)
	}
	return []string{unknown}
}

// isOfTheHost reports whether a constant is another on another machine, as
// runtime.GOARCH is.
func (s scope) isOfTheHost(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if id, is := n.(*ast.Ident); is {
			object := s.in.info.Uses[id]
			found = found || (object != nil && object.Pkg() != nil &&
				object.Pkg().Path() == "runtime")
		}
		return true
	})
	return found
}

// mark notes the literals of a constant expression as used.
func (s scope) mark(e ast.Expr) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			s.seen[n] = true
		case *ast.Ident:
			s.markConstant(n)
		case *ast.CallExpr, *ast.FuncLit:
			return n == ast.Node(e)
		}
		return true
	})
}

// markConstant notes the literals of a constant of the same package.
func (s scope) markConstant(name *ast.Ident) {
	object, is := s.in.info.Uses[name].(*types.Const)
	if !is {
		return
	}

	for _, file := range s.in.files {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is {
				return true
			}
			for i, declared := range spec.Names {
				if s.in.info.Defs[declared] == object && i < len(spec.Values) {
					s.mark(spec.Values[i])
				}
			}
			return true
		})
	}
}

// variable returns the texts of all that is assigned to a variable. A parameter
// has none: its callers do.
func (s scope) variable(name *ast.Ident) []string {
	object := s.in.info.Uses[name]
	if object == nil {
		object = s.in.info.Defs[name]
	}
	if _, is := object.(*types.Var); !is || s.body == nil {
		return []string{unknown}
	}

	var found []string
	is := func(e ast.Expr) bool {
		id, ok := e.(*ast.Ident)
		return ok && (s.in.info.Defs[id] == object || s.in.info.Uses[id] == object)
	}
	ast.Inspect(s.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				switch {
				case !is(left):
				case len(n.Rhs) == len(n.Lhs):
					found = append(found, s.texts(n.Rhs[i])...)
				default:
					if call, ok := n.Rhs[0].(*ast.CallExpr); ok {
						found = append(found, s.call(call, i)...)
					}
				}
			}
		case *ast.ValueSpec:
			for i, left := range n.Names {
				if is(left) && i < len(n.Values) {
					found = append(found, s.texts(n.Values[i])...)
				}
			}
		case *ast.RangeStmt:
			if n.Value != nil && is(n.Value) {
				found = append(found, s.elements(n.X)...)
			}
		}
		return true
	})
	if len(found) == 0 && s.callers {
		found = s.passed(object)
	}
	return limit(found)
}

// passed returns the texts that callers in the same package pass as a
// parameter.
func (s scope) passed(parameter types.Object) []string {
	var found []string
	for _, file := range s.in.files {
		for _, decl := range file.Decls {
			there := s
			there.body = decl
			there.depth++
			ast.Inspect(decl, func(n ast.Node) bool {
				call, is := n.(*ast.CallExpr)
				if !is {
					return true
				}
				signature, is := s.in.info.TypeOf(call.Fun).(*types.Signature)
				for i := 0; is && i < min(signature.Params().Len(), len(call.Args)); i++ {
					if signature.Params().At(i) == parameter {
						found = append(found, there.texts(call.Args[i])...)
					}
				}
				return true
			})
		}
	}

	return found
}

// elements returns the texts of the elements of a map or a list that a literal,
// or a function that returns a literal, has.
func (s scope) elements(e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.CompositeLit:
		var found []string
		for _, element := range e.Elts {
			if pair, is := element.(*ast.KeyValueExpr); is {
				element = pair.Value
			}
			found = append(found, s.texts(element)...)
		}
		return limit(found)
	case *ast.Ident:
		if value := s.global(e); value != nil {
			return s.elements(value)
		}
	case *ast.CallExpr:
		f, is := s.declaration(e)
		if !is {
			break
		}
		inside := s.inside(f)
		var found []string
		for _, result := range results(f.decl, 0) {
			found = append(found, inside.elements(result)...)
		}
		return limit(found)
	}

	return []string{unknown}
}

// global returns what a variable of the package begins with, nil if unknown.
func (s scope) global(name *ast.Ident) ast.Expr {
	var value ast.Expr
	for _, file := range s.in.files {
		for _, decl := range file.Decls {
			general, is := decl.(*ast.GenDecl)
			if !is {
				continue
			}
			for _, spec := range general.Specs {
				declared, is := spec.(*ast.ValueSpec)
				if is && len(declared.Values) == 1 &&
					s.in.info.Defs[declared.Names[0]] == s.in.info.Uses[name] {
					value = declared.Values[0]
				}
			}
		}
	}

	return value
}

// call returns the texts of result i of a call.
func (s scope) call(call *ast.CallExpr, i int) []string {
	switch callee := s.callee(call); {
	case callee == nil:
		return []string{unknown}
	case callee.FullName() == "fmt.Sprintf", callee.FullName() == "fmt.Errorf":
		return s.format(call.Args)
	case callee.FullName() == module+"hint.With", callee.FullName() == module+"hint.Line":
		return s.texts(call.Args[0]) // The problem, without hints.
	case callee.FullName() == "errors.New":
		return s.texts(call.Args[0])
	case callee.Name() == "Quote":
		return []string{`"` + unknown + `"`}
	case callee.FullName() == "cmp.Or":
		var found []string
		for _, arg := range call.Args {
			found = append(found, s.texts(arg)...)
		}
		return limit(found)
	}

	f, is := s.declaration(call)
	if !is || s.depth > maxDepth {
		return []string{unknown}
	}
	inside := s.inside(f)
	var found []string
	for _, result := range results(f.decl, i) {
		found = append(found, inside.texts(result)...)
	}
	return withoutEmpty(limit(found))
}

// callee is the function or method that a call names, nil for any other.
func (s scope) callee(call *ast.CallExpr) *types.Func {
	var name *ast.Ident
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		name = fun
	case *ast.SelectorExpr:
		name = fun.Sel
	case *ast.IndexExpr:
		if selector, is := fun.X.(*ast.SelectorExpr); is {
			name = selector.Sel
		}
	}

	if name == nil {
		return nil
	}

	callee, _ := s.in.info.Uses[name].(*types.Func)
	if callee == nil {
		return nil
	}

	return callee.Origin()
}

func (s scope) declaration(call *ast.CallExpr) (function, bool) {
	callee := s.callee(call)
	if callee == nil {
		return function{}, false
	}
	f, is := s.functions[callee.FullName()]
	return f, is && f.decl.Body != nil
}

// inside is the scope of a function that is called here.
func (s scope) inside(f function) scope {
	s.in, s.body = f.in, f.decl
	s.depth++
	return s
}

// results returns the expressions that a function returns as result i.
func results(decl *ast.FuncDecl, i int) []ast.Expr {
	var found []ast.Expr
	ast.Inspect(decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			if i < len(n.Results) {
				found = append(found, n.Results[i])
			}
		}
		return true
	})
	return found
}

// verb is a verb of package fmt, with the argument's index if it has one.
var verb = regexp.MustCompile(`%([-+# 0]*)(?:\[(\d)\])?[\d.]*([a-zA-Z%])`)

// format returns the texts of a format and its arguments.
func (s scope) format(args []ast.Expr) []string {
	if len(args) == 0 {
		return []string{unknown}
	}

	var found []string
	for _, format := range s.texts(args[0]) {
		texts := []string{""}
		rest, next := format, 1
		for {
			at := verb.FindStringSubmatchIndex(rest)
			if at == nil {
				texts = join(texts, []string{rest})
				break
			}
			texts = join(texts, []string{rest[:at[0]]})
			kind := rest[at[6]:at[7]]
			if at[4] >= 0 {
				next = int(rest[at[4]] - '0')
			}
			rest = rest[at[1]:]
			if kind == "%" {
				texts = join(texts, []string{"%"})
				continue
			}
			texts = join(texts, s.argument(args, next, kind))
			next++
		}
		found = append(found, texts...)
	}
	return limit(found)
}

// argument returns the texts of an argument of a format, where it is a string.
func (s scope) argument(args []ast.Expr, i int, kind string) []string {
	if i >= len(args) || (kind != "s" && kind != "q" && kind != "v") {
		return []string{unknown}
	}
	basic, is := s.in.info.TypeOf(args[i]).Underlying().(*types.Basic)
	if !is || basic.Info()&types.IsString == 0 {
		return []string{unknown}
	}

	texts := s.few(args[i])
	if kind == "q" {
		texts = join(join([]string{`"`}, texts), []string{`"`})
	}
	return texts
}

// join returns each text of a before each text of b.
func join(a, b []string) []string {
	if len(a) == 0 {
		a = []string{unknown}
	}
	if len(b) == 0 {
		b = []string{unknown}
	}
	if len(a)*len(b) > maxTexts {
		b = []string{unknown}
	}

	var all []string
	for _, x := range a {
		for _, y := range b {
			all = append(all, strings.ReplaceAll(x+y, unknown+unknown, unknown))
		}
	}
	return all
}

// few returns the texts of a part of a text, or unknown if there are many.
func (s scope) few(part ast.Expr) []string {
	texts := s.texts(part)
	if len(texts) == 0 || (len(texts) > maxParts && !s.callers) {
		return []string{unknown}
	}
	return texts
}

// withoutEmpty removes the empty text, which means "none", beside others.
func withoutEmpty(texts []string) []string {
	if len(texts) < 2 {
		return texts
	}
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// limit removes duplicates.
func limit(texts []string) []string {
	var found []string
	for _, text := range texts {
		if !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	return found
}

// literal returns the value of a string literal.
func literal(lit *ast.BasicLit, info *types.Info) (string, bool) {
	if lit.Kind != token.STRING {
		return "", false
	}
	value := info.Types[lit].Value
	if value == nil || value.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(value), true
}
