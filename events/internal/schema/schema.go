// Package schema makes the JSON Schemas of the event catalog from the Go types and their comments, so that the types are the only
// place where a kind of event is described. What may not live here: anything that runs when events are read.
package schema

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"

	"github.com/convoke-hpc/convoke/events"
)

// Source is the file whose types are described, by its path from package events.
const Source = "types.go"

// Generate is the schema of each kind, by file name, made from the source text of the types.
func Generate(source []byte) (map[string][]byte, error) {
	file, err := parser.ParseFile(token.NewFileSet(), Source, source, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("reading the event types, %w", err)
	}
	g := generator{structs: map[string]*ast.StructType{}, docs: map[string]string{}}
	ast.Inspect(file, g.collect)
	out := map[string][]byte{}
	for _, k := range events.Catalog() {
		name := reflect.TypeOf(k.New()).Elem().Name()
		s, err := g.object(name)
		if err != nil {
			return nil, err
		}
		s.Schema = "https://json-schema.org/draft/2020-12/schema"
		s.ID = "urn:convoke:event:" + k.Type
		s.Title = k.Type
		s.Defs = map[string]*node{"cluster": clusterKey()}
		b, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("writing the schema of %s, %w", k.Type, err)
		}
		out[k.Type+".json"] = append(b, '\n')
	}
	return out, nil
}

// node is a schema, as far as the catalog needs one.
type node struct {
	Schema      string           `json:"$schema,omitempty"`
	ID          string           `json:"$id,omitempty"`
	Ref         string           `json:"$ref,omitempty"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Type        string           `json:"type,omitempty"`
	Format      string           `json:"format,omitempty"`
	Pattern     string           `json:"pattern,omitempty"`
	Enum        []string         `json:"enum,omitempty"`
	MinLength   int              `json:"minLength,omitempty"`
	MaxLength   int              `json:"maxLength,omitempty"`
	MaxItems    int              `json:"maxItems,omitempty"`
	Minimum     *int             `json:"minimum,omitempty"`
	Required    []string         `json:"required,omitempty"`
	Properties  map[string]*node `json:"properties,omitempty"`
	Items       *node            `json:"items,omitempty"`
	Defs        map[string]*node `json:"$defs,omitempty"`
}

func clusterKey() *node {
	return &node{
		Type: "object", Description: "The cluster that the event is about.",
		Required: []string{"project", "location", "id"},
		Properties: map[string]*node{
			"project":  {Type: "string", MinLength: 6},
			"location": {Type: "string", Pattern: "^[a-z]+-[a-z]+[0-9]+$"},
			"id":       {Type: "string", Pattern: "^[a-z][a-z0-9]{0,9}$"},
		},
	}
}

type generator struct {
	structs map[string]*ast.StructType
	docs    map[string]string
}

func (g *generator) collect(n ast.Node) bool {
	decl, ok := n.(*ast.GenDecl)
	if !ok {
		return true
	}
	for _, spec := range decl.Specs {
		if t, ok := spec.(*ast.TypeSpec); ok {
			if s, ok := t.Type.(*ast.StructType); ok {
				g.structs[t.Name.Name] = s
				g.docs[t.Name.Name] = oneLine(decl.Doc)
			}
		}
	}
	return false
}

func (g *generator) object(name string) (*node, error) {
	s := g.structs[name]
	if s == nil {
		return nil, fmt.Errorf("the event types have no struct %s", name)
	}
	out := &node{Type: "object", Description: g.docs[name], Properties: map[string]*node{}}
	for _, f := range s.Fields.List {
		if f.Tag == nil || len(f.Names) != 1 {
			return nil, fmt.Errorf("%s has a field without a name or a JSON tag", name)
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return nil, fmt.Errorf("reading a tag of %s, %w", name, err)
		}
		field, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		optional := strings.Contains(options, "omit")
		p, err := g.property(name, f, strings.Contains(options, "string"), optional)
		if err != nil {
			return nil, err
		}
		out.Properties[field] = p
		if !optional {
			out.Required = append(out.Required, field)
		}
	}
	return out, nil
}

// enums are the fields with a closed set of values.
func enums(field string) []string {
	switch field {
	case "NodeHealth.Verdict":
		return []string{string(events.Healthy), string(events.Warning), string(events.Degraded), string(events.Broken)}
	case "NodeNotice.Notice":
		return []string{events.NoticePreempted, events.NoticeMaintenance}
	case "ClusterUpdate.UpdateMode":
		return []string{"UPDATE_MODE_UNSPECIFIED", "USER_ONLY", "USER_AND_SERVICE"}
	}
	return nil
}

func (g *generator) property(owner string, f *ast.Field, quoted, optional bool) (*node, error) {
	p, err := g.typed(f.Type, quoted)
	if err != nil {
		return nil, fmt.Errorf("describing %s.%s, %w", owner, f.Names[0].Name, err)
	}
	comment := oneLine(f.Comment)
	if p.Ref == "" {
		p.Description = strings.TrimSpace(oneLine(f.Doc) + " " + comment)
	}
	if comment == "hostlist" {
		p.Pattern, p.MaxLength = `^[A-Za-z0-9_.,\[\]-]*$`, events.MaxHostlist
		if !optional {
			p.MinLength = 1
		}
	}
	p.Enum = enums(owner + "." + f.Names[0].Name)
	return p, nil
}

func (g *generator) typed(t ast.Expr, quoted bool) (*node, error) {
	switch t := t.(type) {
	case *ast.ArrayType:
		items, err := g.typed(t.Elt, false)
		if err != nil {
			return nil, err
		}
		return &node{Type: "array", Items: items, MaxItems: events.MaxEntries}, nil
	case *ast.SelectorExpr:
		switch t.Sel.Name {
		case "Key":
			return &node{Ref: "#/$defs/cluster"}, nil
		case "Time":
			return &node{Type: "string", Format: "date-time"}, nil
		case "RawMessage":
			return &node{Type: "object"}, nil
		}
	case *ast.Ident:
		switch t.Name {
		case "string", "Verdict":
			return &node{Type: "string"}, nil
		case "bool":
			return &node{Type: "boolean"}, nil
		case "int", "int64":
			return &node{Type: "integer", Minimum: new(int)}, nil
		case "uint64":
			if quoted {
				return &node{Type: "string", Pattern: "^[0-9]{1,20}$"}, nil
			}
		default:
			return g.object(t.Name)
		}
	}
	return nil, fmt.Errorf("there is no JSON type for %T", t)
}

func oneLine(c *ast.CommentGroup) string {
	return strings.Join(strings.Fields(c.Text()), " ")
}
