package delivery_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"
)

const framework = "github.com/GoogleCloudPlatform/functions-framework-go/"

// TestNobodyRegistersCloudEventFunctions: the framework's own adapter for CloudEvents hangs for good once a few dozen events
// have come at the same time, and answers what it cannot read before the function could put it aside.
func TestNobodyRegistersCloudEventFunctions(t *testing.T) {
	seen := 0
	repository := os.DirFS("../..")
	err := fs.WalkDir(repository, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != ".":
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		seen++
		text, err := fs.ReadFile(repository, path)
		if err != nil || !bytes.Contains(text, []byte(framework)) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, use := range eventFunctions(file) {
			t.Errorf("%s uses %s: register an http.Handler made by delivery.Adapter with functions.HTTP", path, use)
		}
		return nil
	})
	if err != nil || seen < 10 {
		t.Fatalf("looked at %d files, %v", seen, err)
	}
}

// eventFunctions lists uses of the framework's functions for events, by whatever name it was imported.
func eventFunctions(file *ast.File) (uses []string) {
	names := map[string]bool{}
	for _, i := range file.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil || !strings.HasPrefix(path, framework) {
			continue
		}
		name := path[strings.LastIndexByte(path, '/')+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		names[name] = true
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && names[x.Name] && strings.Contains(s.Sel.Name, "Event") {
				uses = append(uses, x.Name+"."+s.Sel.Name)
			}
		}
		return true
	})
	return uses
}

func TestEventFunctions(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "a.go", `package a
import f "`+framework+`functions"
func main() { f.HTTP("a", nil); f.CloudEvent("b", nil) }`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := eventFunctions(file); len(got) != 1 || got[0] != "f.CloudEvent" {
		t.Errorf("found %v", got)
	}
}
