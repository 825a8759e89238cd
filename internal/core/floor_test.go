package core_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

// longAgo is when the connections of the library's own were opened.
var longAgo = time.Now().Add(-time.Hour)

// readFrom is a node that a session reads from, whose answers the test gives.
type readFrom struct {
	core.Place
	mu     sync.Mutex
	sample core.Sample
	after  core.CaptureResult

	primary *core.Capture
}

func newReadFrom(node int, p core.Position) *readFrom {
	f := &readFrom{primary: core.NewCapture(nil), sample: core.Sample{Start: startA, Position: p, Since: longAgo}, after: core.CaptureResult{Start: startA, Position: p, At: time.Now(), Since: longAgo}}
	f.Place = core.Place{
		Node:   node,
		Newest: func() *core.Sample { f.mu.Lock(); defer f.mu.Unlock(); s := f.sample; return &s },
		After: func() *core.Capture {
			f.mu.Lock()
			defer f.mu.Unlock()
			c := core.NewCapture(nil)
			c.Complete(f.after)
			return c
		},
		Primary: func() *core.Capture { return f.primary },
		Date:    func(_ context.Context, p core.Position, _ uint32) (core.Position, error) { return p, core.ErrFloorGone },
	}
	return f
}

func needOf(s *core.Session) core.Need {
	need, _ := s.View(cluster, time.Now)
	return need
}

// TestFloorBecomesAPosition: what was read is asked of its server after the read, or is in a sample that began after it.
func TestFloorBecomesAPosition(t *testing.T) {
	t.Run("a sample after the read", func(t *testing.T) {
		var s core.Session
		b := newReadFrom(1, at(1, 100))
		s.Saw(cluster, &b.Place, startA, false, time.Now())
		b.sample.Began = time.Now().Add(time.Second)
		b.after.Err = errors.New("nobody asks")
		require.Len(t, needOf(&s).Floors, 1)
		require.NoError(t, s.Settle(t.Context(), cluster, window))
		need := needOf(&s)
		require.Empty(t, need.Floors)
		require.Equal(t, []core.Position{at(1, 100)}, need.Positions)
		require.True(t, need.AheadOf(), "the primary may not show it yet")
		s.Shown(cluster, time.Now())
		need = needOf(&s)
		require.False(t, need.AheadOf())
	})
	t.Run("what the primary shows by now", func(t *testing.T) {
		var s core.Session
		b := newReadFrom(1, at(1, 100))
		s.Saw(cluster, &b.Place, startA, false, time.Now())
		shown := time.Now()
		s.Shown(cluster, shown)
		need := needOf(&s)
		require.False(t, need.AheadOf())
		require.Len(t, need.Floors, 1, "other replicas may lack it")
		s.Saw(cluster, &b.Place, startA, false, shown.Add(time.Second))
		need = needOf(&s)
		require.True(t, need.AheadOf())
	})
	t.Run("a sample before the read", func(t *testing.T) {
		var s core.Session
		b := newReadFrom(1, at(1, 100))
		s.Saw(cluster, &b.Place, startA, false, time.Now())
		b.sample.Began = time.Now().Add(-time.Second)
		b.after.Position = at(1, 120)
		require.NoError(t, s.Settle(t.Context(), cluster, window))
		require.Equal(t, []core.Position{at(1, 120)}, needOf(&s).Positions)
	})
	t.Run("what the sample has seen and not replayed", func(t *testing.T) {
		var s core.Session
		b := newReadFrom(1, at(1, 100))
		s.Saw(cluster, &b.Place, startA, false, time.Now())
		b.sample.Began, b.sample.Seen = time.Now().Add(time.Second), at(1, 101)
		require.NoError(t, s.Settle(t.Context(), cluster, window))
		require.Equal(t, []core.Position{at(1, 101)}, needOf(&s).Positions)
	})
}

// TestFloorThatIsGone: what no server can tell any more holds the session to the primary, whichever server that is by now, and to
// what it has: replicas may be late for longer.
func TestFloorThatIsGone(t *testing.T) {
	hidden := at(0, 100)
	for name, change := range map[string]func(*readFrom){
		"another life of the same run": func(f *readFrom) { f.after.Since = time.Now().Add(time.Minute) },
		"another run":                  func(f *readFrom) { f.after.Start.At++ },
		"no position":                  func(f *readFrom) { f.after.Position = core.Position{} },
		"a timeline that nobody tells": func(f *readFrom) { f.after.Position = hidden },
	} {
		t.Run(name, func(t *testing.T) {
			var s core.Session
			b := newReadFrom(1, at(1, 100))
			b.sample.Start = core.Start{}
			change(b)
			s.Saw(cluster, &b.Place, startA, false, time.Now())
			require.NoError(t, s.Settle(t.Context(), cluster, window))
			need := needOf(&s)
			require.Empty(t, need.Floors)
			require.Empty(t, need.Positions, "nothing could ever be compared with it")
			require.True(t, need.Until.After(time.Now()))
			require.Same(t, b.primary, need.Pending)
			b.primary.Complete(answer(startB, at(2, 300)))
			_, verdict := s.View(cluster, time.Now)
			require.Equal(t, core.VerdictNone, verdict, "it has written nothing")
			need = needOf(&s)
			require.Equal(t, []core.Position{at(2, 300)}, need.Positions)
			require.True(t, need.LastWrite.IsZero())
		})
	}
	t.Run("asked in vain", func(t *testing.T) {
		var s core.Session
		b := newReadFrom(1, at(1, 100))
		b.after.Err = errors.New("closed")
		s.Saw(cluster, &b.Place, startA, false, time.Now())
		require.Error(t, s.Settle(t.Context(), cluster, window))
		require.Len(t, needOf(&s).Floors, 1, "it may be told later")
		token, err := s.Token(t.Context(), time.Now, window)
		require.Error(t, err)
		require.True(t, token.Entries()[0].Until.After(time.Now()), "and is safe meanwhile")
	})
}

// TestFloorsOnSeveralServers: reads of one session on two servers at a time, moved and settled at once: in the end the session
// needs what the last read showed.
func TestFloorsOnSeveralServers(t *testing.T) {
	var s core.Session
	nodes := []*readFrom{newReadFrom(1, at(1, 1)), newReadFrom(2, at(1, 1))}
	var all sync.WaitGroup
	var clock sync.Mutex
	lsn := core.LSN(1)
	for _, n := range nodes {
		for range 2 {
			all.Go(func() {
				for range 500 {
					clock.Lock()
					lsn++
					n.mu.Lock()
					n.after.Position = at(1, lsn) // what is asked from now on shows what is read now
					n.mu.Unlock()
					s.Saw(cluster, &n.Place, startA, false, time.Now())
					clock.Unlock()
					_ = s.Settle(context.Background(), cluster, window)
				}
			})
		}
	}
	all.Wait()
	require.NoError(t, s.Settle(t.Context(), cluster, window))
	need := needOf(&s)
	require.Empty(t, need.Floors)
	require.Equal(t, []core.Position{at(1, lsn)}, need.Positions)
	require.True(t, need.Until.IsZero())
}

// TestFloorIsLivedThrough: a crash may leave a server's start as it was, but no connection.
func TestFloorIsLivedThrough(t *testing.T) {
	var s core.Session
	b := newReadFrom(1, at(1, 100))
	read := time.Now()
	s.Saw(cluster, &b.Place, startA, false, read)
	f := needOf(&s).Floors[0]
	before, after := read.Add(-time.Second), read.Add(time.Second)
	for name, c := range map[string]struct {
		opened time.Time
		sample core.Sample
		want   bool
	}{
		"opened before it":                        {before, core.Sample{}, true},
		"opened after it":                         {after, core.Sample{}, false},
		"the library's own was, and has answered": {after, core.Sample{Start: startA, Since: before, Began: after.Add(time.Second)}, true},
		"it has not answered since":               {after, core.Sample{Start: startA, Since: before, Began: after.Add(-time.Millisecond)}, false},
		"the library's own is younger":            {after, core.Sample{Start: startA, Since: read.Add(time.Millisecond), Began: after.Add(time.Second)}, false},
		"nobody knows how old it is":              {after, core.Sample{Start: startA, Began: after.Add(time.Second)}, false},
		"the library's own is to another run":     {after, core.Sample{Start: core.Start{At: 9}, Since: before, Began: after.Add(time.Second)}, false},
	} {
		require.Equal(t, c.want, f.Lived(c.opened, &c.sample), name)
	}
}
