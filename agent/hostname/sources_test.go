package hostname_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEverySourceOfANamePassesParse finds what names the node, and what reads a name:
// each file that does calls Parse or Valid, but for those that get the name from it.
func TestEverySourceOfANamePassesParse(t *testing.T) {
	// marks are in code that reads a name or gives the node one.
	marks := []string{
		"SetHostname", "Sethostname", "HostnameFile", "etc/hostname", "local-hostname",
		"MachineName", "Hostnames",
	}
	// others have the mark and judge no name, with the file that does.
	others := map[string]string{
		"env.go":              "the system call; name.go calls it",
		"name.go":             "nodename/choose.go",
		"source/drive.go":     "identity/identity.go",
		"machine/files.go":    "identity/identity.go",
		"networkd/observe.go": "nodename/choose.go",
	}

	var unjudged []string
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", name), nil, 0)
		if err != nil {
			return err
		}
		names := namesIn(file)
		marked := slices.ContainsFunc(marks, func(mark string) bool { return names[mark] })
		if marked && !names["hostname.Parse"] && !names["hostname.Valid"] {
			unjudged = append(unjudged, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	var known []string
	for name := range others {
		known = append(known, name)
	}
	slices.Sort(known)
	slices.Sort(unjudged)
	if diff := cmp.Diff(known, unjudged); diff != "" {
		t.Errorf("files with a host name that call neither hostname.Parse nor Valid "+
			"(-known +found):\n%s", diff)
	}
}

// namesIn returns the identifiers and texts in a file, and what it calls of packages.
func namesIn(file *ast.File) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			names[n.Name] = true
		case *ast.BasicLit:
			names[strings.Trim(n.Value, "\"`")] = true
		case *ast.SelectorExpr:
			if of, is := n.X.(*ast.Ident); is {
				names[of.Name+"."+n.Sel.Name] = true
			}
		}
		return true
	})
	return names
}
