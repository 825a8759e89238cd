package main

import (
	"fmt"
	"strings"
)

// markdown is the table of docs/guarantees.md.
func markdown() string {
	var b strings.Builder
	b.WriteString("| without this | in | this goes red |\n|---|---|---|\n")
	for i := range guards {
		g := &guards[i]
		notices := "`" + g.test + "`"
		if g.rule != "" {
			notices = "the simulation: `" + g.rule + "`"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", g.name, g.file, notices)
	}
	return b.String()
}
