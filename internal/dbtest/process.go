package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// launcher starts every process of one cluster from one goroutine that is locked to its OS thread. The kernel's
// parent-death signal fires when the *thread* that forked ends: a server started from a passing goroutine would die
// with whichever thread that goroutine happened to be on.
type launcher struct {
	jobs   chan func()
	closed chan struct{}
}

var errClosed = errors.New("the cluster is closed")

func newLauncher() *launcher {
	l := &launcher{jobs: make(chan func()), closed: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for {
			select {
			case job := <-l.jobs:
				job()
			case <-l.closed:
				return
			}
		}
	}()
	return l
}

// close ends the goroutine. Nothing that it has started may still run.
func (l *launcher) close() { close(l.closed) }

// fork starts cmd on the launcher's thread.
func (l *launcher) fork(cmd *exec.Cmd) error {
	started := make(chan error, 1)
	select {
	case l.jobs <- func() { started <- cmd.Start() }:
		return <-started
	case <-l.closed:
		return errClosed
	}
}

// process is a running server, or one that has ended and has been waited for.
type process struct {
	pid  int
	done chan struct{} // closed once the process has ended and been reaped
}

func (l *launcher) start(cmd *exec.Cmd) (*process, error) {
	if err := l.fork(cmd); err != nil {
		return nil, err
	}
	p := &process{pid: cmd.Process.Pid, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // how it ended is in the server's log
	}()
	return p, nil
}

// run starts cmd and waits for it; output goes into the error.
func (l *launcher) run(cmd *exec.Cmd) error {
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := l.fork(cmd); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, out.data)
	}
	return nil
}

// tail keeps the last part of what is written to it.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if extra := len(t.data) - 4096; extra > 0 {
		t.data = t.data[extra:]
	}
	return len(p), nil
}

func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop sends a signal and waits until the process has ended.
func (p *process) stop(ctx context.Context, sig syscall.Signal) error {
	if err := signalProcess(p.pid, sig); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// kill ends the process and all its children at once, and waits until none of them is left: a child that survives for
// a moment would keep the data folder in use.
func (p *process) kill(ctx context.Context) error {
	children, err := p.freeze(ctx) // so that no child is born between looking and killing
	if err != nil {
		return err
	}
	for _, pid := range append(children, p.pid) {
		if err := signalProcess(pid, signalKill); err != nil {
			return err
		}
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return poll(ctx, func() (bool, error) {
		for _, pid := range children {
			if !isDead(pid) {
				return false, nil
			}
		}
		return true, nil
	})
}

// freeze stops the process and then its children, until a look finds no child that runs, and returns the children.
func (p *process) freeze(ctx context.Context) ([]int, error) {
	if err := signalProcess(p.pid, signalFreeze); err != nil {
		return nil, err
	}
	var children []int
	err := poll(ctx, func() (bool, error) {
		var err error
		if children, err = childrenOf(p.pid); err != nil {
			return false, err
		}
		frozen := isStopped(p.pid)
		for _, pid := range children {
			if err := signalProcess(pid, signalFreeze); err != nil {
				return false, err
			}
			frozen = frozen && isStopped(pid)
		}
		return frozen, nil
	})
	return children, err
}

func (p *process) thaw() error {
	children, err := childrenOf(p.pid)
	if err != nil {
		return err
	}
	for _, pid := range append(children, p.pid) {
		if err := signalProcess(pid, signalThaw); err != nil {
			return err
		}
	}
	return nil
}

const pollInterval = 2 * time.Millisecond

// poll calls cond at once and then every pollInterval, until it is true, fails, or ctx ends.
func poll(ctx context.Context, cond func() (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if ok, err := cond(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// operationTimeout bounds every operation whose context has no deadline of its own.
const operationTimeout = 30 * time.Second

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, operationTimeout)
}
