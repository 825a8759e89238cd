// Command readroute says where the readroute library sends statements.
//
//	readroute classify < statements.jsonl
//
// classify reads JSON lines {"id", "dialect", "sql"} from standard input and writes one JSON line {"id", "target", "class",
// "reason"} for each. It connects to no server.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // reading or writing failed
	exitUsage  = 2 // the command line or a line of the input is wrong
)

const usage = `usage: readroute classify < statements.jsonl

Reads JSON lines {"id", "dialect", "sql"} from standard input; dialect is pg, mysql or mariadb, id is any JSON value, and other
fields are ignored. Writes a JSON line {"id", "target", "class", "reason"} for each; target is replica, primary or pin (the
primary, and what follows on the same connection stays there).

The first line that is not such an object ends it: its number is on standard error and the exit code is 2.
`

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, in io.Reader, out, problems io.Writer) int {
	switch {
	case len(args) == 1 && (args[0] == "help" || args[0] == "-h" || args[0] == "--help"):
		fmt.Fprint(out, usage)
		return exitOK
	case len(args) != 1 || args[0] != "classify":
		fmt.Fprint(problems, usage)
		return exitUsage
	}
	err := classify(in, out)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(problems, "readroute classify: %v\n", err)
	var bad *lineError
	if errors.As(err, &bad) {
		return exitUsage
	}
	return exitFailed
}
