package docs

import (
	"fmt"
	"go/types"
	"slices"
	"strings"

	"github.com/loam-os/loam/hint/fault"
)

// faultPackage declares the codes of errors.
const faultPackage = "hint/fault"

// UnusedCodes returns the names of the constants of package fault that no code
// of the program uses, other than the table itself.
func (p *Program) UnusedCodes() []string {
	used := map[string]bool{}
	var declared []string
	for _, in := range p.packages {
		for _, file := range in.files {
			name := p.fset.Position(file.Pos()).Filename
			isTable := strings.HasSuffix(name, faultPackage+"/table.go")
			for id, object := range in.info.Uses {
				inFile := file.FileStart <= id.Pos() && id.Pos() < file.FileEnd
				if inFile && !isTable && isCode(object) {
					used[object.Name()] = true
				}
			}
		}
		if in.name == faultPackage {
			for _, object := range in.info.Defs {
				if isCode(object) {
					declared = append(declared, object.Name())
				}
			}
		}
	}

	slices.Sort(declared)
	return slices.DeleteFunc(declared, func(name string) bool { return used[name] })
}

// isCode reports whether an object is a constant of type fault.Code.
func isCode(object types.Object) bool {
	constant, is := object.(*types.Const)
	return is && constant.Type().String() == module+faultPackage+".Code"
}

// codesTable is the table of all codes.
func codesTable() string {
	var b strings.Builder
	b.WriteString("| Code | Class | Exit status | Meaning | What to do in general |\n|---|---|---|---|---|\n")
	for _, f := range fault.Table() {
		fmt.Fprintf(&b, "| `%s` | %s | %d | %s | %s |\n",
			f.Code, f.Class, f.Class.ExitStatus(), cell(f.Meaning), cell(f.Hint))
	}
	return b.String()
}
