package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/check"
)

// TestGuardsAreThere: every guard's text is in its file, once, and the test that misses it exists.
func TestGuardsAreThere(t *testing.T) {
	root, err := findRoot()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, g := range guards {
		t.Run(g.name, func(t *testing.T) {
			require.False(t, names[g.name], "two guards have one name")
			names[g.name] = true
			text, err := os.ReadFile(filepath.Join(root, g.file))
			require.NoError(t, err)
			mutant, err := g.mutate(string(text))
			require.NoError(t, err)
			require.NotEqual(t, string(text), mutant)
			require.Truef(t, hasTest(t, filepath.Join(root, g.pkg), g.test), "%s has no %s", g.pkg, g.test)
			require.Equal(t, g.rule != "", g.ops == soon || g.ops == late)
		})
	}
	require.GreaterOrEqual(t, len(guards), 57, "a guard was dropped")
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {") {
			return true
		}
	}
	return false
}

// TestRulesAreTheCheckers: the rules that the table names are some of the checker's.
func TestRulesAreTheCheckers(t *testing.T) {
	known := map[string]bool{}
	for r := range 100 {
		known[check.Rule(r).String()] = true
	}
	for _, g := range guards {
		if g.rule != "" {
			require.Truef(t, known[g.rule], "%s: %s", g.name, g.rule)
		}
	}
}

// TestTableIsInTheDocs: docs/guarantees.md has the table as it is. go run ./internal/mutation -table prints it.
func TestTableIsInTheDocs(t *testing.T) {
	root, err := findRoot()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md"))
	require.NoError(t, err)
	in := regexp.MustCompile(`(?ms)^\| without this .*?\n\n`).FindAllString(string(text), -1)
	require.Len(t, in, 1)
	require.Equal(t, markdown()+"\n", in[0])
}
