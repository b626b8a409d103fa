package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// maxMethods is how many methods a type has at most: one with more is several, which
// can be divided by the fields that each method uses.
const maxMethods = 20

// source is our Go files, by their names from the top level.
type source struct {
	positions *token.FileSet
	files     map[string]*ast.File
}

// parsed is all of it; to parse it takes half a second.
var parsed = sync.OnceValues(func() (source, error) {
	s := source{token.NewFileSet(), map[string]*ast.File{}}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && ((entry.Name() == "build" && filepath.Dir(path) == "../..") ||
			entry.Name() == ".git" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		file, err := parser.ParseFile(s.positions, path, nil, 0)
		s.files[strings.TrimPrefix(path, "../../")] = file
		return err
	})
	return s, err
})

func sources(t *testing.T) source {
	t.Helper()
	s, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNoTypeHasMoreThanTwentyMethods(t *testing.T) {
	count := map[string]int{}
	for name, file := range sources(t).files {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") {
			continue
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				count[filepath.Dir(name)+"."+receiver(f.Recv.List[0].Type)]++
			}
		}
	}

	for name, n := range count {
		if n > maxMethods {
			t.Errorf("%s has %d methods, want at most %d", name, n, maxMethods)
		}
	}
}

// receiver returns the name of the type of a method.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}

func TestAnAndWithinAnOrHasParentheses(t *testing.T) {
	code := sources(t)
	for _, file := range code.files {
		ast.Inspect(file, func(n ast.Node) bool {
			or, ok := n.(*ast.BinaryExpr)
			if !ok || or.Op != token.LOR {
				return true
			}
			for _, operand := range []ast.Expr{or.X, or.Y} {
				if and, ok := operand.(*ast.BinaryExpr); ok && and.Op == token.LAND {
					t.Errorf("%s: && within ||: parentheses or a name say what belongs together",
						code.positions.Position(and.Pos()))
				}
			}
			return true
		})
	}
}

// relative matches the names of tests that begin like a question or a relative
// clause. A name is a statement of what the test shows: the test fails where that
// is wrong.
var relative = regexp.MustCompile(`^Test(What|Who|Which|Where|When|How)([A-Z]|$)`)

func TestNamesOfTestsAreStatements(t *testing.T) {
	code := sources(t)
	for _, file := range code.files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && relative.MatchString(f.Name.Name) {
				t.Errorf("%s: the name %s is no statement of what the test shows",
					code.positions.Position(f.Pos()), f.Name.Name)
			}
		}
	}
}
