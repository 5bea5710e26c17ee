package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/convoke-hpc/convoke/shared/spec"
)

// schema prints the JSON Schema of the cluster spec.
func (a app) schema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the cluster spec",
		Long: `Schema prints a JSON Schema (draft 2020-12) of the cluster spec. An editor that is given it completes and checks specs
while they are written. Rules that go across fields are checked by "convoke validate".`,
		Example: `  convoke schema > cluster-spec.schema.json`,
		Args:    arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if _, err := a.out.Write(spec.Schema()); err != nil {
				return fmt.Errorf("writing the schema, %w", err)
			}
			return nil
		},
	}
}
