package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/cli"
	"github.com/toolgate/toolgate/killswitch/central"
	"github.com/toolgate/toolgate/killswitch/central/api"
	"github.com/toolgate/toolgate/killswitch/central/natsd"
)

func newCredentials() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "credentials --dir DIR --name NAME",
		Short: "Print NATS credentials for sidecars under a name of their own; serve with the same --dir accepts them at once",
		Args:  cli.FlagsOnly,
	}
	dir := cmd.Flags().String("dir", "", "the `folder` of serve")
	name := cmd.Flags().String("name", "", "the `name`: letters, digits, - and _; it stands in the subjects that they may speak on")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *dir == "" || *name == "" {
			return errors.New("found no --dir or no --name, expected both")
		}
		b, err := natsd.Credentials(*dir, *name)
		if err != nil {
			return cli.Wrong(err)
		}
		if _, err := cmd.OutOrStdout().Write(b); err != nil {
			return cli.Wrong(err)
		}
		return nil
	}
	return cmd
}

func newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token --name NAME --roles ROLES",
		Short: "Make a token, and print it once with the line for the --tokens file of serve",
		Args:  cli.FlagsOnly,
	}
	var p central.Principal
	f := cmd.Flags()
	f.StringVar(&p.Name, "name", "", "whose it is; it stands in the log")
	roles := f.StringSlice("roles", nil, "`viewer`, responder or admin")
	f.StringSliceVar(&p.Tenants, "tenants", nil, "limit it to these `tenants`; default: all")
	out := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.Valid(); err != nil {
			return err
		}
		for _, r := range *roles {
			p.Roles = append(p.Roles, central.Role(r))
		}
		if strings.ContainsAny(p.Name+strings.Join(p.Tenants, ""), " \t\n,") || cmd.Flags().Changed("tenants") && len(p.Tenants) == 0 {
			return errors.New("found a blank or a comma in --name or --tenants, or no tenant")
		}
		token, line, err := api.NewToken(p)
		if err != nil {
			return err
		}
		v := map[string]string{"token": token, "line": line}
		return out.Print(cmd.OutOrStdout(), v, func(w io.Writer) {
			fmt.Fprintf(w, "the token, which is shown only now:\n%s\n\nthe line for the tokens file:\n%s\n", token, line)
		})
	}
	return cmd
}

func newKey() *cobra.Command {
	return &cobra.Command{
		Use:   "key FILE",
		Short: "Make a signing key in a file, unless it is there, and print its public key",
		Args:  cli.One("the file of a signing key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			signer, err := loadSigner(args[0])
			if err != nil {
				return cli.Wrong(err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), signer.PublicKey())
			return nil
		},
	}
}

func newPermissions() *cobra.Command {
	return &cobra.Command{
		Use:   "permissions",
		Short: "Print the accounts that an existing NATS cluster needs, for its configuration file",
		Args:  cli.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), natsd.ServerConfig())
			if err != nil {
				return cli.Wrong(err)
			}
			return nil
		},
	}
}
