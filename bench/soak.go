//go:build linux

package main

import (
	"context"
	"io"
)

func runSoak(ctx context.Context, opt *options, stdout, stderr io.Writer) error { return nil }
