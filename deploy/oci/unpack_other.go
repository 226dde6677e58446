//go:build !linux

package main

import "errors"

func unpack(string, []file) error {
	return errors.New("-rootfs: expected Linux, which has file capabilities")
}
