package docs

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is the path of this module, with a slash.
const module = "github.com/loam-os/loam/"

// Program is the code of this module without its tests, with types.
type Program struct {
	fset     *token.FileSet
	packages []*source
	// functions are the declarations by [types.Func.FullName]. Packages know
	// each other by their export data, so objects of two packages never are the
	// same.
	functions map[string]function
}

// source is one package.
type source struct {
	// name is the import path without the module, such as agent/osc.
	name  string
	files []*ast.File
	info  *types.Info
}

// function is where a function or method is declared.
type function struct {
	in   *source
	decl *ast.FuncDecl
}

// listed is what `go list -json` says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// Load reads the packages that the patterns name. root is the top of the
// repository.
func Load(root string, patterns ...string) (*Program, error) {
	exports := map[string]string{}
	var own []listed
	all, err := list(root, append([]string{"-export", "-deps"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, module) {
			own = append(own, p)
		}
	}

	p := &Program{fset: token.NewFileSet(), functions: map[string]function{}}
	imports := importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for _, pkg := range own {
		if err := p.add(pkg, imports); err != nil {
			return nil, fmt.Errorf("%s: %w", pkg.ImportPath, err)
		}
	}
	return p, nil
}

func list(root string, args ...string) ([]listed, error) {
	args = append([]string{"list", "-json=ImportPath,Dir,Export,GoFiles"}, args...)
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}

	var all []listed
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, p)
	}
}

// add parses and checks one package.
func (p *Program) add(pkg listed, imports types.Importer) error {
	s := &source{
		name: strings.TrimPrefix(pkg.ImportPath, module),
		info: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{},
			Defs:  map[*ast.Ident]types.Object{},
			Uses:  map[*ast.Ident]types.Object{},
		},
	}
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(
			p.fset,
			filepath.Join(pkg.Dir, name),
			nil,
			parser.ParseComments,
		)
		if err != nil {
			return err
		}
		s.files = append(s.files, file)
	}
	config := types.Config{Importer: imports}
	if _, err := config.Check(pkg.ImportPath, p.fset, s.files, s.info); err != nil {
		return err
	}

	for _, file := range s.files {
		for _, decl := range file.Decls {
			if f, is := decl.(*ast.FuncDecl); is {
				if object, is := s.info.Defs[f.Name].(*types.Func); is {
					p.functions[object.FullName()] = function{s, f}
				}
			}
		}
	}
	p.packages = append(p.packages, s)
	return nil
}
