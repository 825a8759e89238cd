package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// serveCommand makes this program a process of the service.
const serveCommand = "serve"

// settings are what a process of the service is told on its standard input, which nobody else on the machine can read.
type settings struct {
	Primary    string            // a DSN
	Replicas   map[string]string // name to DSN
	Secret     []byte            // the same in all processes
	Middleware bool
}

// process is a process of the service.
type process struct {
	addr   string
	cmd    *exec.Cmd
	input  io.Closer
	stderr bytes.Buffer
}

// startProcess returns when the process can serve.
func startProcess(ctx context.Context, s settings) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, program, serveCommand)}
	p.cmd.Stderr = &p.stderr
	input, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.input = input
	err = json.NewEncoder(input).Encode(s)
	var line string
	if err == nil {
		line, err = bufio.NewReader(output).ReadString('\n')
	}
	if err != nil {
		return nil, cmp.Or(p.stop(), err) // the process knows better what is wrong
	}
	p.addr = strings.TrimSpace(line)
	return p, nil
}

// stop ends the process and waits for it.
func (p *process) stop() error {
	_ = p.input.Close()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("a process of the service: %w: %s", err, bytes.TrimSpace(p.stderr.Bytes()))
	}
	return nil
}
