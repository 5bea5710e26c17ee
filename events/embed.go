package events

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed schemas/*.json
var schemaFiles embed.FS

//go:embed examples/*.json
var exampleFiles embed.FS

// Schema is the JSON Schema (draft 2020-12) of a kind's payload.
func Schema(typ string) ([]byte, error) { return embedded(schemaFiles, "schemas", typ) }

// Example is an example of a kind, as a whole CloudEvent in its JSON form.
func Example(typ string) ([]byte, error) { return embedded(exampleFiles, "examples", typ) }

func embedded(files embed.FS, folder, typ string) ([]byte, error) {
	b, err := fs.ReadFile(files, folder+"/"+typ+".json")
	if err != nil {
		return nil, fmt.Errorf("%q: %w", typ, ErrUnknownType)
	}
	return b, nil
}
