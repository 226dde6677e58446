package main

import "github.com/spf13/cobra"

func newMutate() *cobra.Command {
	return &cobra.Command{Use: "mutate", Short: "Inject into a pod offline: YAML in, YAML out", Args: flagsOnly}
}
