// Command mutation switches off the library's guards, one at a time, and demands that a named test goes red each time. A guard
// that nobody misses is one that nothing is known of.
//
// The source is not changed. Each guard is an exact text of one file and what takes its place; go test -overlay is given files
// that have both, with a switch. A text that is not there exactly once any more fails the tests of this package.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"sync"
	"time"
)

func main() {
	run := flag.String("run", "", "only guards whose name matches this regular expression")
	quick := flag.Bool("quick", false, "only guards that are missed within seconds, without servers: a part of make test")
	table := flag.Bool("table", false, "print the table of docs/guarantees.md, and run nothing")
	flag.Parse()
	if *table {
		fmt.Print(markdown())
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := all(ctx, *run, *quick); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

// all runs guards by name and says of each what came of it.
func all(ctx context.Context, pattern string, quick bool) error {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	b, err := newBuild(root)
	if err != nil {
		return err
	}
	defer b.Close()
	var chosen []int
	for i := range guards {
		if !match.MatchString(guards[i].name) || quick && !guards[i].quick() {
			continue
		}
		chosen = append(chosen, i)
		if _, err := b.program(ctx, guards[i].pkg); err != nil {
			return err
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	missed, ran := 0, len(chosen)
	slots := make(chan struct{}, runtime.NumCPU()) // a simulation keeps one processor busy
	for _, i := range chosen {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			began := time.Now()
			verdict, said := b.verdict(ctx, &guards[i], i+1)
			mu.Lock()
			defer mu.Unlock()
			if verdict != red {
				missed++
			}
			fmt.Printf("%-5s %5.1fs  %s: %s %s\n", verdict, time.Since(began).Seconds(), guards[i].name, guards[i].noticedBy(), said)
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	fmt.Printf("%d guards switched off, %d of them not missed\n", ran, missed)
	if missed > 0 || ran == 0 {
		return fmt.Errorf("%d of %d guards are not missed when they are off", missed, ran)
	}
	return nil
}

// The verdicts on a guard that is off.
const (
	red   = "red"
	green = "GREEN" // nobody has noticed
	wrong = "ERROR" // something else was noticed
)

// verdict runs a guard's test while it is off.
func (b *build) verdict(ctx context.Context, g *guard, off int) (verdict, said string) {
	said, failed, err := b.run(ctx, g, off)
	switch {
	case err != nil:
		return wrong, err.Error()
	case !failed:
		return green, ""
	}
	return red, said
}
