package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// build is the tests of packages, with every guard in them that can be switched off.
type build struct {
	root    string
	dir     string
	overlay string
	tests   map[string]string // by package: the program
}

// newBuild writes the sources down. Close removes what it and others have written.
func newBuild(root string) (*build, error) {
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return nil, err
	}
	b := &build{root: root, dir: dir, overlay: filepath.Join(dir, "overlay.json"), tests: map[string]string{}}
	if err := b.weave(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Close removes it.
func (b *build) Close() error { return os.RemoveAll(b.dir) }

// woven are the texts of all files that have guards, and of the one with the switch.
func woven(root string) (map[string]string, error) {
	list := map[string][]numbered{}
	for i := range guards {
		list[guards[i].file] = append(list[guards[i].file], numbered{i + 1, &guards[i]})
	}
	texts := map[string]string{switchFile: switchText}
	for name, here := range list {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		if texts[name], err = weave(string(text), here); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

func (b *build) weave() error {
	texts, err := woven(b.root)
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for name, text := range texts {
		to := filepath.Join(b.dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return err
		}
		replace[filepath.Join(b.root, name)] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(b.overlay, text, 0o600)
}

// program is the tests of a package. It builds them when it is called first.
func (b *build) program(ctx context.Context, pkg string) (string, error) {
	if p := b.tests[pkg]; p != "" {
		return p, nil
	}
	p := filepath.Join(b.dir, strings.NewReplacer("/", "_", ".", "root").Replace(pkg)+".test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", b.overlay, "-o", p, "./"+pkg)
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the tests of %s without guards: %w:\n%s", pkg, err, out)
	}
	b.tests[pkg] = p
	return p, nil
}

// run runs a guard's test while the guard with a number is off. said is what the test says of itself.
func (b *build) run(ctx context.Context, g *guard, off int) (said string, failed bool, err error) {
	args := []string{"-test.run", "^" + g.test + "$", "-test.timeout", "10m"}
	if g.rule != "" {
		args = append(args, "-simulation.hunt", g.rule, "-simulation.ops", strconv.Itoa(g.ops))
	}
	cmd := exec.CommandContext(ctx, b.tests[g.pkg], args...)
	cmd.Dir = filepath.Join(b.root, g.pkg)
	cmd.Env = append(os.Environ(), switchVariable+"="+strconv.Itoa(off))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return g.judge(out.String(), err)
}

var replayed = regexp.MustCompile(`-simulation.replay '([^']*)'`)

// judge reads what a test has printed.
func (g *guard) judge(out string, failed error) (said string, red bool, err error) {
	switch {
	case failed == nil && strings.Contains(out, "no tests to run"):
		return "", false, fmt.Errorf("%s has no test %s", g.pkg, g.test)
	case failed == nil:
		return "", false, nil
	case g.rule != "" && strings.Contains(out, g.rule+" is broken: "):
		if m := replayed.FindStringSubmatch(out); m != nil {
			said = m[1]
		}
		return said, true, nil
	case g.rule == "" && strings.Contains(out, "--- FAIL: "+g.test):
		return "", true, nil
	}
	return "", false, fmt.Errorf("the test has not failed as it should:\n%s", out[:min(len(out), 4000)])
}

// findRoot finds the folder of the module.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("this is not the module's folder, nor one in it")
		}
		dir = filepath.Dir(dir)
	}
}
