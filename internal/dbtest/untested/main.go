// Command untested says, in one line each, which servers this machine lacks whose tests are therefore left out. It is
// the last command of make test.
package main

import (
	"log"
	"os"

	"github.com/readroute/readroute/internal/dbtest"
)

func main() {
	if err := dbtest.Untested(os.Stdout); err != nil {
		log.Fatal(err)
	}
}
