package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/cli"
)

// newProbe is for helm test: an image without a shell has nothing else to ask with.
func newProbe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "probe URL...",
		Short: "Ask each URL until it answers 200",
		Long:  "Ask each URL until it answers 200, for --timeout at most. Exit code 1 names the first that does not.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("found no URL, expected one or more")
			}
			return nil
		},
	}
	timeout := cmd.Flags().Duration("timeout", time.Minute, "how `long` all of them may take")
	caFile := cmd.Flags().String("ca-file", "", "a PEM `file` of roots, in place of the system's")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := probeClient(*caFile)
		if err != nil {
			return cli.Wrong(err)
		}
		end := time.NewTimer(*timeout)
		defer end.Stop()
		for _, url := range args {
			if err := probe(cmd, client, url, end.C); err != nil {
				return cli.Wrong(err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), url, "answers")
		}
		return nil
	}
	return cmd
}

func probeClient(caFile string) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem, err := os.ReadFile(filepath.Clean(caFile))
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca-file: found no certificate in %s", caFile)
		}
	}
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: config}}, nil
}

// probe asks twice a second. end is told when the time is over.
func probe(cmd *cobra.Command, client *http.Client, url string, end <-chan time.Time) error {
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for {
		err := ask(cmd, client, url)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-end:
			return err
		case <-cmd.Context().Done():
			return err
		}
	}
}

func ask(cmd *cobra.Command, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: found %s, expected 200", url, response.Status)
	}
	return nil
}
