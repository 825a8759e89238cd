package readroute_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/check"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/simulation"
)

// versions are those that a node shows.
func (c *chaos[N]) versions(i int) map[int]bool {
	has := map[int]bool{}
	for _, v := range c.list(i) {
		has[v] = true
	}
	return has
}

func (c *chaos[N]) list(i int) []int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	rows, err := c.bare[i].QueryContext(ctx, "SELECT v FROM kv WHERE k >= 0")
	require.NoError(c.t, err)
	defer rows.Close()
	var list []int
	for rows.Next() {
		var v int
		require.NoError(c.t, rows.Scan(&v))
		list = append(list, v)
	}
	require.NoError(c.t, rows.Err())
	return list
}

// mend ends what has been wrong for long enough.
func (c *chaos[N]) mend() {
	now := time.Now()
	for i := range c.proxies {
		if at := c.mended[i]; !at.IsZero() && now.After(at) {
			c.proxies[i].Stall(false)
			c.proxies[i].SetDelay(0)
			c.straighten(i)
			c.mended[i] = time.Time{}
		}
	}
	for i := range c.nodes {
		c.mendNode(i, now)
	}
}

func (c *chaos[N]) mendNode(i int, now time.Time) {
	n, w, primary := c.nodes[i], &c.wrong[i], &c.wrong[c.primary]
	if !w.down && !w.frozen && !n.IsRunning() { // a stop that had been given up has come to its end
		w.down, w.start = true, now
	}
	switch {
	case w.frozen:
		if now.After(w.thaw) && c.do("thaw", i, n.Thaw) {
			w.frozen = false
		}
	case w.down && !w.misplaced:
		if now.After(w.start) && c.do("start", i, n.Start) {
			w.down = false
		}
	case w.paused && now.After(w.resume):
		w.paused = !c.do("resume the replay of", i, n.ResumeReplay)
	case primary.down || primary.frozen:
	case !w.follow.IsZero() && now.After(w.follow):
		if c.do("follow by", i, func(ctx context.Context) error { return n.Follow(ctx, c.nodes[c.primary]) }) {
			w.down, w.follow, w.judge = false, time.Time{}, c.after(300*time.Millisecond, 2*time.Second)
			c.replaced(i)
		} else if w.attempts++; w.attempts > 2 {
			w.follow, w.judge = time.Time{}, now
		}
	case !w.judge.IsZero() && now.After(w.judge):
		if c.follows(i) {
			w.misplaced, w.judge = false, time.Time{}
			if w.returns {
				w.returns = false
				c.done["a former primary returns"]++
			}
		} else if c.rebuild(i) {
			if w.returns {
				c.done["a former primary has diverged"]++
			}
			*w = broken{}
			c.replaced(i)
		}
	}
}

// firstNewID is above the ids that the servers begin with.
const firstNewID = 1000

// rebuild makes a node anew. A server of MariaDB gets another id then: under the former's, what that had written and lost would be
// taken for its own, and the numbers come again.
func (c *chaos[N]) rebuild(i int) bool {
	if n, ok := any(c.nodes[i]).(*dbtest.MySQLNode); ok && c.engine == simulation.MariaDB {
		n.SetServerID(firstNewID + c.done["rebuild"] + c.done["rebuild that fails"]) // no two may have one: not even after what has failed
	}
	return c.do("rebuild", i, func(ctx context.Context) error { return c.nodes[i].Rebuild(ctx, c.nodes[c.primary]) })
}

// replaced is called when a node is no primary any more.
func (c *chaos[N]) replaced(i int) {
	c.wrong[i].former = false
	if c.split >= 0 && !slices.ContainsFunc(c.wrong, func(w broken) bool { return w.former }) {
		from := c.split
		c.split = -1
		c.rec.Truth(func(h *check.History) { h.Split = append(h.Split, check.Span{From: from, To: c.rec.Now()}) })
	}
}

// follows reports that a node has all that the primary shows, and receives what is written now.
func (c *chaos[N]) follows(i int) bool {
	if c.wrong[i].down || !c.nodes[i].IsRunning() {
		return false
	}
	c.marks++
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if _, err := c.bare[c.primary].ExecContext(ctx, fmt.Sprintf("INSERT INTO kv (k, v) VALUES (-2, %d)", c.marks)); err != nil {
		c.tell("mark: %v", err)
		return false
	}
	want := c.versions(c.primary)
	for ; ctx.Err() == nil; c.pause(20 * time.Millisecond) {
		var marked int
		err := c.bare[i].QueryRowContext(ctx, fmt.Sprintf("SELECT count(*) FROM kv WHERE k = -2 AND v = %d", c.marks)).Scan(&marked)
		if err != nil || marked == 0 {
			continue
		}
		has := c.versions(i)
		for v := range want {
			if !has[v] {
				c.tell("%s lacks version %d", c.nodes[i].Name(), v)
				return false
			}
		}
		return true
	}
	c.tell("%s does not follow", c.nodes[i].Name())
	return false
}

// heal ends all that is wrong.
func (c *chaos[N]) heal() {
	for i := range c.proxies {
		c.mended[i] = time.Now().Add(-time.Second)
		c.proxies[i].OnClientData(nil)
	}
	whole := func() bool {
		return !slices.ContainsFunc(c.wrong, func(w broken) bool { return w.down || w.frozen || w.paused || w.misplaced })
	}
	for deadline := time.Now().Add(40 * time.Second); !whole(); c.pause(10 * time.Millisecond) {
		require.Truef(c.t, time.Now().Before(deadline), "the cluster cannot be mended: %+v\n%s", c.wrong, c.tale(0))
		past := time.Now().Add(-time.Second)
		for i := range c.wrong {
			w := &c.wrong[i]
			w.thaw, w.start, w.resume = past, past, past
			for _, at := range []*time.Time{&w.follow, &w.judge} {
				if !at.IsZero() {
					*at = past
				}
			}
		}
		c.mend()
	}
	c.mend()
}

// recovers demands that every pool has its fresh reads served by replicas again.
func (c *chaos[N]) recovers() {
	for i, db := range c.load.Pools {
		insert, read := "INSERT INTO kv (k, v) VALUES (-1, 1)", "SELECT count(*) FROM kv WHERE k = -1"
		began := time.Now()
		try := func() error {
			// A session of its own: one whose write nobody can tell the outcome of reads from the primary for a while.
			ctx, cancel := context.WithTimeout(readroute.WithSession(context.Background()), 15*time.Second)
			defer cancel()
			ctx = readroute.WithFallback(readroute.WithWait(ctx, 5*time.Second), readroute.FallbackError)
			if _, err := db.ExecContext(ctx, insert); err != nil {
				return err
			}
			return db.QueryRowContext(ctx, read).Scan(new(int))
		}
		for {
			err := try()
			if err == nil {
				break
			}
			require.Lessf(c.t, time.Since(began), 45*time.Second, "pool %d does not recover: %v\n%s", i, err, c.tale(0))
			c.pause(50 * time.Millisecond)
		}
	}
}
