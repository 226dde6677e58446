//go:build !linux

package main

import (
	"errors"

	"github.com/toolgate/toolgate/deploy/oci/layout"
)

func unpack(string, []layout.File) error {
	return errors.New("-rootfs: expected Linux, which has file capabilities")
}
