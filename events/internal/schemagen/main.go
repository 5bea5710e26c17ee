// Command schemagen writes the JSON Schemas of the event catalog. It is run by go generate in package events.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/convoke-hpc/convoke/events/internal/schema"
)

func main() {
	source, err := os.ReadFile(schema.Source)
	if err != nil {
		log.Fatal(err)
	}
	files, err := schema.Generate(source)
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join("schemas", name), text, 0o644); err != nil { //nolint:gosec // a file of the repository
			log.Fatal(err)
		}
	}
}
