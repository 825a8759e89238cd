package readroute_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
	"os"
	"strconv"
)

var sink byte

func TestZC(t *testing.T) {
	kb, _ := strconv.Atoi(os.Getenv("KB"))
	buf := make([]byte, kb<<10)
	pools := nullPools(t)
	for _, what := range []string{"read", "write"} {
		took := map[string][]time.Duration{}
		for range 6000 {
			for _, name := range []string{"bare", "routed"} {
				for i := 0; i < len(buf); i += 64 {
					buf[i]++
				}
				p := pools[name]
				begin := time.Now()
				var err error
				if what == "read" { err = p.read() } else { err = p.write() }
				took[name] = append(took[name], time.Since(begin))
				if err != nil { t.Fatal(err) }
			}
		}
		c := map[string]time.Duration{}
		for n, x := range took { slices.Sort(x); c[n] = x[len(x)/4] }
		fmt.Println(what, kb, "bare", c["bare"], "added", c["routed"]-c["bare"])
	}
}
