package core_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

const (
	cluster = "main"
	window  = 15 * time.Second
)

var (
	startA = core.Start{System: 7, At: 1}
	startB = core.Start{System: 7, At: 2}
)

func clock() time.Time { return fixtureNow }

func at(timeline uint32, lsn core.LSN) core.Position {
	return core.Position{Kind: core.KindPostgres, System: 7, Timeline: timeline, LSN: lsn}
}

// answer is what a server on its timeline says at a position.
func answer(start core.Start, p core.Position) core.CaptureResult {
	return core.CaptureResult{Position: p, Reported: p.LSN, Start: start, At: fixtureNow.Add(time.Millisecond)}
}

// view takes in what has finished and wants the verdict.
func view(t testing.TB, s *core.Session, verdict core.Verdict) core.Need {
	t.Helper()
	need, got := s.View(cluster, clock)
	require.Equal(t, verdict, got)
	return need
}

func TestSessionZero(t *testing.T) {
	var s core.Session
	require.Equal(t, core.Need{}, view(t, &s, core.VerdictNone))
	token, err := s.Token(t.Context(), clock, window)
	require.NoError(t, err)
	require.True(t, token.IsZero())
}

func TestSessionTakesInItsCapture(t *testing.T) {
	var s core.Session
	c := core.NewCapture(nil)
	s.Wrote(cluster, fixtureNow, startA, c, false, window)
	need := view(t, &s, core.VerdictNone)
	require.Same(t, c, need.Pending)
	require.Equal(t, fixtureNow, need.LastWrite)
	require.Empty(t, need.Positions)

	c.Complete(answer(startA, at(1, 100)))
	need = view(t, &s, core.VerdictNone)
	require.Nil(t, need.Pending)
	require.Equal(t, []core.Position{at(1, 100)}, need.Positions)
	require.Equal(t, fixtureNow.Add(time.Millisecond), need.CapturedAt)
	require.True(t, need.Until.IsZero())

	other, _ := s.View("other", clock)
	require.Empty(t, other.Positions, "clusters know nothing of each other")
	require.True(t, other.Pending == nil && other.Until.IsZero() && other.LastWrite.IsZero())
}

// TestSessionThatOnlyWrites: however many captures have come and gone meanwhile, the first read needs the last one's position
// and nothing else.
func TestSessionThatOnlyWrites(t *testing.T) {
	var s core.Session
	for i := range 100 {
		c := core.NewCapture(nil)
		s.Wrote(cluster, fixtureNow, startA, c, false, window)
		c.Complete(answer(startA, at(1, core.LSN(100+i))))
	}
	need := view(t, &s, core.VerdictNone)
	require.Equal(t, []core.Position{at(1, 199)}, need.Positions)
	require.True(t, need.Until.IsZero())
	require.Nil(t, need.Pending)

	// The writes of a session that join one capture publish nothing; when they were is told by the capture.
	c := core.NewCapture(nil)
	s.Wrote(cluster, fixtureNow, startA, c, false, window)
	require.Zero(t, testing.AllocsPerRun(100, func() { s.Wrote(cluster, fixtureNow, startA, c, false, window) }))
	later := fixtureNow.Add(time.Minute)
	c.Complete(core.CaptureResult{Position: at(1, 300), Reported: 300, Start: startA, At: later})
	require.Equal(t, later, view(t, &s, core.VerdictNone).LastWrite)
}

// TestSessionVerdicts completes one capture in every way.
func TestSessionVerdicts(t *testing.T) {
	sticky := fixtureNow.Add(window)
	for name, c := range map[string]struct {
		result    core.CaptureResult
		verdict   core.Verdict
		positions []core.Position
		until     time.Time
	}{
		"covered":        {result: answer(startA, at(1, 100)), positions: []core.Position{at(1, 100)}},
		"another server": {result: answer(startB, at(1, 100)), verdict: core.VerdictForeign, positions: []core.Position{at(1, 100)}, until: sticky},
		"given up":       {result: core.CaptureResult{Err: errors.New("closed")}, until: sticky},
		"no position":    {result: core.CaptureResult{Start: startA}, until: sticky},
	} {
		t.Run(name, func(t *testing.T) {
			var s core.Session
			capture := core.NewCapture(nil)
			s.Wrote(cluster, fixtureNow, startA, capture, false, window)
			capture.Complete(c.result)
			need := view(t, &s, c.verdict)
			require.Equal(t, c.positions, need.Positions)
			require.Equal(t, c.until, need.Until)
			require.Nil(t, need.Pending)
			require.Equal(t, need, view(t, &s, core.VerdictNone), "a verdict is told once")
		})
	}
}

// TestSessionDoubt: a write of unknown outcome asks for the primary, and then for what the primary has; a token of in between for the
// primary once more, for whoever reads it cannot know.
func TestSessionDoubt(t *testing.T) {
	var s core.Session
	now := fixtureNow
	clock := func() time.Time { return now }
	began, ended := core.NewCapture(nil), core.NewCapture(nil)
	s.Doubtful(cluster, now, began, window)
	began.Complete(answer(startA, at(1, 100)))
	need := view(t, &s, core.VerdictNone)
	require.Equal(t, now.Add(window), need.Until)
	require.Equal(t, []core.Position{at(1, 100)}, need.Positions)
	require.True(t, need.Unproven)
	s.Prove(cluster, now, ended, window)
	require.True(t, view(t, &s, core.VerdictNone).Unproven, "its window has not ended")

	until := func() time.Time {
		token, err := s.Token(t.Context(), clock, window)
		require.NoError(t, err)
		return token.Entries()[0].Until
	}
	require.Equal(t, fixtureNow.Add(window), until())
	now = now.Add(window)
	require.Equal(t, now.Add(window), until())
	s.Prove(cluster, now, ended, window)
	require.Equal(t, ended, view(t, &s, core.VerdictNone).Pending)
	ended.Complete(answer(startB, at(1, 300)))
	need = view(t, &s, core.VerdictNone)
	require.False(t, need.Unproven)
	require.Equal(t, []core.Position{at(1, 300)}, need.Positions)
	require.Equal(t, now, until())
}

// TestSessionJudge has the primary judge a position that came from elsewhere.
func TestSessionJudge(t *testing.T) {
	for name, c := range map[string]struct {
		position core.Position
		answer   core.CaptureResult
		verdict  core.Verdict
		after    []core.Position
		until    bool
	}{
		"stands":          {at(1, 100), answer(startA, at(1, 100)), core.VerdictNone, []core.Position{at(1, 100)}, false},
		"from the future": {at(1, 101), answer(startA, at(1, 100)), core.VerdictLost, []core.Position{at(1, 100)}, false},
		"rounded down": {
			at(1, 8192), core.CaptureResult{Position: at(1, 8192), Reported: 8216, Start: startA},
			core.VerdictNone,
			[]core.Position{at(1, 8192)},
			false,
		},
		"timeline ended, below":  {at(1, 90), answer(startA, at(2, 100)), core.VerdictReplaced, []core.Position{at(2, 100)}, false},
		"timeline ended, beyond": {at(1, 101), answer(startA, at(2, 100)), core.VerdictLost, []core.Position{at(2, 100)}, false},
		"timeline ended, beyond, and the new one has grown": {
			at(1, 101), core.CaptureResult{Position: at(2, 200), Reported: 200, Recovered: 100, Start: startA},
			core.VerdictLost,
			[]core.Position{at(2, 200)},
			false,
		},
		"timeline ended, below, and the new one has grown": {
			at(1, 100), core.CaptureResult{Position: at(2, 200), Reported: 200, Recovered: 100, Start: startA},
			core.VerdictReplaced,
			[]core.Position{at(2, 200)},
			false,
		},
		"newer timeline": {at(3, 100), answer(startA, at(2, 200)), core.VerdictNone, []core.Position{at(3, 100)}, false},
		"other system": {
			core.Position{Kind: core.KindPostgres, System: 8, Timeline: 1, LSN: 1}, answer(startA, at(1, 100)),
			core.VerdictLost,
			[]core.Position{at(1, 100)},
			false,
		},
		"given up": {at(1, 101), core.CaptureResult{Err: errors.New("closed")}, core.VerdictNone, []core.Position{at(1, 101)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var s core.Session
			s.Require(core.Entry{Cluster: cluster, Positions: []core.Position{c.position}}, window)
			capture := core.NewCapture(nil)
			s.Judge(cluster, fixtureNow, []core.Position{c.position}, capture, window)
			require.Same(t, capture, view(t, &s, core.VerdictNone).Pending)
			capture.Complete(c.answer)
			need := view(t, &s, c.verdict)
			require.Equal(t, c.after, need.Positions)
			require.Equal(t, c.until, !need.Until.IsZero())
			view(t, &s, core.VerdictNone)
		})
	}
}

// TestSessionJudgeIsCompareAndSwap: only the very position that was judged is reset.
func TestSessionJudgeIsCompareAndSwap(t *testing.T) {
	var s core.Session
	s.Require(core.Entry{Cluster: cluster, Positions: []core.Position{at(1, 500)}}, window)
	capture := core.NewCapture(nil)
	s.Judge(cluster, fixtureNow, []core.Position{at(1, 500)}, capture, window)
	s.Require(core.Entry{Cluster: cluster, Positions: []core.Position{at(1, 600)}}, window)
	capture.Complete(answer(startA, at(1, 100)))
	require.Equal(t, []core.Position{at(1, 600)}, view(t, &s, core.VerdictNone).Positions)
}

func TestSessionLaterCaptureStandsIn(t *testing.T) {
	var s core.Session
	first, second := core.NewCapture(nil), core.NewCapture(nil)
	s.Wrote(cluster, fixtureNow, startA, first, false, window)
	s.Wrote(cluster, fixtureNow, startA, first, false, window)
	s.Wrote(cluster, fixtureNow, startA, second, false, window)
	require.Same(t, second, view(t, &s, core.VerdictNone).Pending)
	first.Complete(answer(startA, at(1, 100)))
	require.Same(t, second, view(t, &s, core.VerdictNone).Pending, "the first one says too little")
	second.Complete(answer(startA, at(1, 200)))
	need := view(t, &s, core.VerdictNone)
	require.Nil(t, need.Pending)
	require.Equal(t, []core.Position{at(1, 200)}, need.Positions)
}

// TestSessionEarlierCaptureDoesNotStandIn: two goroutines of a session write. The one whose write ended first is the last
// one to say so; its capture begins too early for the other's write.
func TestSessionEarlierCaptureDoesNotStandIn(t *testing.T) {
	var s core.Session
	first, second := core.NewCapture(nil), core.NewCapture(nil)
	s.Wrote(cluster, fixtureNow, startA, second, false, window)
	s.Wrote(cluster, fixtureNow, startA, first, false, window)
	first.Complete(answer(startA, at(1, 100)))
	require.Same(t, second, view(t, &s, core.VerdictNone).Pending)
	second.Complete(answer(startA, at(1, 200)))
	require.Equal(t, []core.Position{at(1, 200)}, view(t, &s, core.VerdictNone).Positions)
}

// TestSessionUnknownOutcomes: nothing stands in for the capture of a write whose outcome is unknown, and nothing for a
// write on another server.
func TestSessionUnknownOutcomes(t *testing.T) {
	var s core.Session
	own, later, elsewhere := core.NewCapture(nil), core.NewCapture(nil), core.NewCapture(nil)
	s.Wrote(cluster, fixtureNow, startA, own, true, window)
	s.Wrote(cluster, fixtureNow, startA, later, false, window)
	s.Wrote(cluster, fixtureNow, startB, elsewhere, false, window)
	later.Complete(answer(startA, at(1, 100)))
	require.Same(t, own, view(t, &s, core.VerdictNone).Pending)
	own.Complete(answer(startA, at(1, 300)))
	need := view(t, &s, core.VerdictNone)
	require.Same(t, elsewhere, need.Pending)
	require.Equal(t, []core.Position{at(1, 300)}, need.Positions)
	elsewhere.Complete(answer(startB, at(2, 50)))
	need = view(t, &s, core.VerdictNone)
	require.Nil(t, need.Pending)
	require.Equal(t, []core.Position{at(1, 300), at(2, 50)}, need.Positions, "neither replaces the other")
	require.True(t, need.CapturedAt.IsZero(), "one time does not speak for two positions")
}

// TestSessionPendingOverflow: a session does not keep more captures than it may, and forgets none in silence.
func TestSessionPendingOverflow(t *testing.T) {
	var s core.Session
	for range 16 {
		s.Wrote(cluster, fixtureNow, startA, core.NewCapture(nil), true, window)
	}
	require.True(t, view(t, &s, core.VerdictNone).Until.IsZero())
	s.Wrote(cluster, fixtureNow, startA, core.NewCapture(nil), true, window)
	require.Equal(t, fixtureNow.Add(window), view(t, &s, core.VerdictNone).Until)
}

// TestSessionForeignPositionKeepsItsOwnTime: the time of this session's capture says nothing of when a merged position was
// captured, so the merged one must not be lowered by it.
func TestSessionForeignPositionKeepsItsOwnTime(t *testing.T) {
	var s core.Session
	capture := core.NewCapture(nil)
	s.Wrote(cluster, fixtureNow, startA, capture, false, window)
	capture.Complete(answer(startA, at(1, 100)))
	require.False(t, view(t, &s, core.VerdictNone).CapturedAt.IsZero())

	s.Require(core.Entry{Cluster: cluster, Positions: []core.Position{at(1, 90)}}, window)
	require.False(t, view(t, &s, core.VerdictNone).CapturedAt.IsZero(), "an older one changes nothing")

	s.Require(core.Entry{Cluster: cluster, Positions: []core.Position{at(1, 110)}}, window)
	require.True(t, view(t, &s, core.VerdictNone).CapturedAt.IsZero())

	late := core.NewCapture(nil)
	s.Wrote(cluster, fixtureNow, startA, late, false, window)
	late.Complete(answer(startA, at(1, 105)))
	need := view(t, &s, core.VerdictNone)
	require.Equal(t, []core.Position{at(1, 110)}, need.Positions)
	require.True(t, need.CapturedAt.IsZero())

	above := core.NewCapture(nil)
	s.Wrote(cluster, fixtureNow, startA, above, false, window)
	above.Complete(answer(startA, at(1, 110)))
	require.Equal(t, fixtureNow.Add(time.Millisecond), view(t, &s, core.VerdictNone).CapturedAt)
}

func TestSessionOpenWrites(t *testing.T) {
	var s core.Session
	s.Open(cluster)
	s.Open(cluster)
	require.True(t, view(t, &s, core.VerdictNone).Open)
	token, err := s.Token(t.Context(), clock, window)
	require.ErrorIs(t, err, core.ErrWriteOpen)
	require.Equal(t, fixtureNow.Add(window), token.Entries()[0].Until, "safe all the same")
	s.Close(cluster)
	require.True(t, view(t, &s, core.VerdictNone).Open)
	s.Close(cluster)
	require.False(t, view(t, &s, core.VerdictNone).Open)
	_, err = s.Token(t.Context(), clock, window)
	require.NoError(t, err)
}

func TestSessionUnprovable(t *testing.T) {
	var s core.Session
	s.Unprovable(cluster, fixtureNow, fixtureNow.Add(time.Minute))
	s.Unprovable(cluster, fixtureNow.Add(-time.Hour), fixtureNow)
	need := view(t, &s, core.VerdictNone)
	require.Equal(t, fixtureNow, need.LastWrite)
	require.Equal(t, fixtureNow.Add(time.Minute), need.Until)
}

func TestSessionToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hurried atomic.Int32
		var s core.Session
		capture := core.NewCapture(func() { hurried.Add(1) })
		s.Wrote(cluster, time.Now(), startA, capture, false, window)
		s.Require(core.Entry{Cluster: "before", Positions: []core.Position{at(1, 5)}}, window)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		token, err := s.Token(ctx, time.Now, window)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, int32(1), hurried.Load(), "a token is not had by waiting for the capture's own time")
		require.Len(t, token.Entries(), 2)
		require.Equal(t, "before", token.Entries()[0].Cluster)
		require.Equal(t, time.Now().Add(window), token.Entries()[1].Until)

		go func() {
			time.Sleep(time.Minute)
			capture.Complete(core.CaptureResult{Position: at(1, 100), Reported: 100, Start: startA, At: time.Now()})
		}()
		token, err = s.Token(t.Context(), time.Now, window)
		require.NoError(t, err)
		require.Equal(t, []core.Position{at(1, 100)}, token.Entries()[1].Positions)
		require.True(t, token.Entries()[1].Until.IsZero(), "what a failed call said does not stick to the session")

		given := core.NewCapture(nil)
		s.Wrote(cluster, time.Now(), startA, given, false, window)
		given.Complete(core.CaptureResult{Err: errors.New("closed")})
		token, err = s.Token(t.Context(), time.Now, window)
		require.NoError(t, err)
		require.Equal(t, time.Now().Add(window), token.Entries()[1].Until)
	})
}

// TestSessionOnlyMovesForward drives a session from many goroutines, each of which checks that what it has seen, and what
// it has written, is required for ever after.
func TestSessionOnlyMovesForward(t *testing.T) {
	var s core.Session
	var log atomic.Uint64
	var order sync.Mutex
	var wg sync.WaitGroup
	verdicts := atomic.Int32{}
	for i := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			var seen core.LSN
			required := func() (lsn core.LSN, waits bool) {
				need, v := s.View(cluster, time.Now)
				if v != core.VerdictNone {
					verdicts.Add(1)
				}
				if len(need.Positions) > 0 {
					lsn = need.Positions[0].LSN
				}
				return lsn, need.Pending != nil // another goroutine's capture, which begins later, stands in
			}
			for range 300 {
				switch r.IntN(4) {
				case 0:
					order.Lock() // a capture that begins later finds a position that is no lower
					write := core.LSN(log.Add(1))
					capture := core.NewCapture(nil)
					order.Unlock()
					s.Wrote(cluster, time.Now(), startA, capture, r.IntN(2) == 0, window)
					capture.Complete(core.CaptureResult{Position: at(1, write), Reported: write, Start: startA, At: time.Now()})
					if got, waits := required(); got < write && !waits {
						t.Errorf("wrote %d, required is %d", write, got)
					}
				case 1:
					s.Open(cluster)
					if need, _ := s.View(cluster, time.Now); !need.Open {
						t.Error("an open write is not seen")
					}
					s.Close(cluster)
				case 2:
					token := core.NewToken(window, core.Entry{Cluster: cluster, Positions: []core.Position{at(1, core.LSN(log.Load()))}})
					s.Merge(token, window)
				}
				if got, _ := required(); got < seen {
					t.Errorf("required was %d and is %d", seen, got)
				} else {
					seen = got
				}
			}
		})
	}
	wg.Wait()
	need, _ := s.View(cluster, time.Now)
	require.Nil(t, need.Pending)
	require.False(t, need.Open)
	require.Len(t, need.Positions, 1)
	require.Equal(t, core.LSN(log.Load()), need.Positions[0].LSN)
	require.Zero(t, verdicts.Load())
}

// TestSessionVerdictIsToldOnce has many readers take in one lost position.
func TestSessionVerdictIsToldOnce(t *testing.T) {
	for range 200 {
		var s core.Session
		s.Require(core.Entry{Cluster: cluster, Positions: []core.Position{at(1, 500)}}, window)
		capture := core.NewCapture(nil)
		s.Judge(cluster, fixtureNow, []core.Position{at(1, 500)}, capture, window)
		capture.Complete(answer(startA, at(1, 100)))
		var told atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, v := s.View(cluster, clock); v == core.VerdictLost {
					told.Add(1)
				}
			})
		}
		wg.Wait()
		require.Equal(t, int32(1), told.Load())
	}
}

// TestSessionOfEveryCluster: an entry of no cluster holds every cluster to its primary, also one that the session does not
// know, and goes with the session's token.
func TestSessionOfEveryCluster(t *testing.T) {
	var s core.Session
	until := time.Now().Add(time.Minute)
	s.Require(core.Entry{Cluster: core.EveryCluster, Until: until}, window)
	need, _ := s.View(cluster, time.Now)
	require.Equal(t, until, need.Until)

	s.Require(core.Entry{Cluster: cluster, Until: until.Add(-time.Second), Positions: []core.Position{at(1, 100)}}, window)
	need, _ = s.View(cluster, time.Now)
	require.Equal(t, until, need.Until)
	require.Equal(t, []core.Position{at(1, 100)}, need.Positions)
	s.Require(core.Entry{Cluster: cluster, Until: until.Add(time.Second)}, window)
	need, _ = s.View(cluster, time.Now)
	require.Equal(t, until.Add(time.Second), need.Until)

	token, err := s.Token(t.Context(), time.Now, window)
	require.NoError(t, err)
	require.Len(t, token.Entries(), 2)
	require.Equal(t, core.Entry{Cluster: core.EveryCluster, Until: until}, token.Entries()[0])
}

// TestSessionGrown: a session grows by what is written and what it is told, not by what a capture finds.
func TestSessionGrown(t *testing.T) {
	var s core.Session
	grown := func(f func()) bool {
		before := s.Grown()
		f()
		return s.Grown() != before
	}
	capture := core.NewCapture(nil)
	require.True(t, grown(func() { s.Wrote(cluster, time.Now(), startA, capture, false, window) }))
	require.False(t, grown(func() {
		capture.Complete(core.CaptureResult{Position: at(1, 100), Reported: 100, Start: startA, At: time.Now()})
		s.View(cluster, time.Now)
	}))
	require.False(t, grown(func() {
		judge := core.NewCapture(nil)
		s.Judge(cluster, time.Now(), []core.Position{at(1, 100)}, judge, window)
		judge.Complete(core.CaptureResult{Position: at(2, 50), Reported: 50, Start: startA, At: time.Now()})
		s.View(cluster, time.Now)
	}))
	require.True(t, grown(func() { s.Open(cluster) }))
	require.False(t, grown(func() { s.Close(cluster) }))
	require.True(t, grown(func() { s.Unprovable(cluster, time.Now(), time.Now()) }))
	require.True(t, grown(func() { s.Merge(core.NewToken(window, core.Entry{Cluster: cluster, At: time.Now()}), window) }))

	// Being told what it needs already, or what nobody has to be answered, is no reason to answer.
	until := time.Now().Add(time.Minute)
	for _, e := range []core.Entry{
		{Cluster: cluster, Positions: []core.Position{at(2, 900)}},
		{Cluster: cluster, Positions: []core.Position{at(2, 900)}, Until: until},
		{Cluster: "other", Positions: []core.Position{at(1, 5)}},
		{Cluster: core.EveryCluster, Until: until},
		{Cluster: core.EveryCluster, UntilLatest: until.Add(time.Second)},
	} {
		token := core.NewToken(window, e)
		require.True(t, grown(func() { s.Merge(token, window) }))
		require.False(t, grown(func() { s.Merge(token, window) }))
	}
	require.False(t, grown(func() {
		s.Merge(core.NewToken(window, core.Entry{Cluster: cluster, Positions: []core.Position{at(2, 100)}}), window)
	}))
	learned := core.Entry{Cluster: cluster, Positions: []core.Position{at(2, 1000)}}
	require.False(t, grown(func() { require.True(t, s.Learn(learned, window)) }))
	require.False(t, s.Learn(learned, window))
	need, _ := s.View(cluster, time.Now)
	require.Contains(t, need.Positions, at(2, 1000))
}
