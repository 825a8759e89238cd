//go:build !unix

package dbtest

import (
	"errors"
	"os"
	"syscall"
)

// Servers need process groups and signals. On a system without them the package compiles and every start fails.
const (
	signalFast = syscall.Signal(iota)
	signalImmediate
	signalKill
	signalFreeze
	signalThaw
)

type serverUser struct{}

func findServerUser() (*serverUser, error) {
	return nil, errors.New("servers are only started on unix systems")
}

func (*serverUser) chown(string) error            { return errors.ErrUnsupported }
func (*serverUser) owns(os.FileInfo) bool         { return false }
func serverAttr(*serverUser) *syscall.SysProcAttr { return nil }
func watchdogAttr() *syscall.SysProcAttr          { return nil }
func lockFile(*os.File) error                     { return errors.ErrUnsupported }
func signalProcess(int, syscall.Signal) error     { return errors.ErrUnsupported }
func childrenOf(int) ([]int, error)               { return nil, errors.ErrUnsupported }
func isStopped(int) bool                          { return true }
func isDead(int) bool                             { return true }
func freeSpace(string) uint64                     { return 0 }
