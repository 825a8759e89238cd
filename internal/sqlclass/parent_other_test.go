//go:build !linux

package sqlclass_test

import "syscall"

func endWithParent() *syscall.SysProcAttr { return nil }
