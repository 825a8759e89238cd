package sqlclass_test

import "syscall"

// endWithParent makes a server end when the test process does, however that ends.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
