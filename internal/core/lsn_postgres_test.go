package core_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
)

// When the last record of a commit fills its page to the last byte, the insert position lies past the next page's
// header, and an idle standby never reports that. The rounded position must not be below what the primary has flushed,
// the standby must reach it while nobody writes, and must show the commit then.
func TestRoundDownIsReachedByIdleReplica(t *testing.T) {
	t.Parallel()

	const segmentMB = 1 // small, so that starts of segments are easy to come by
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cluster := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1, WALSegmentMB: segmentMB})
	log := &walSteerer{
		t: t, ctx: ctx, segment: segmentMB << 20,
		primary: dial(ctx, t, cluster.Primary()), standby: dial(ctx, t, cluster.Standby(0)),
	}
	require.NoError(t, log.primary.QueryRow(ctx, "select setting::bigint from pg_settings where name = 'wal_block_size'").
		Scan(&log.block))
	_, err := log.primary.Exec(ctx, "create table commits (id int primary key)")
	require.NoError(t, err)

	for _, mode := range []string{"on", "off"} {
		_, err := log.primary.Exec(ctx, "set synchronous_commit = "+mode)
		require.NoError(t, err)
		t.Run("synchronous_commit "+mode, func(t *testing.T) {
			log.t = t
			random := rand.New(rand.NewPCG(1, 2))
			for range 1000 {
				log.commit(random.IntN(500))
				log.capture()
			}
			log.requireReached(log.capture())

			idle := 0
			for i := range 10 {
				raw := log.fillPage(i%2 == 0)
				if log.requireReached(raw) < raw {
					idle++ // had the position not been rounded, the wait would have been for the next write
				}
			}
			require.NotZero(t, idle, "the standby was never seen idle at a page boundary: this test has shown nothing")
		})
	}

	t.Run("segment switch", func(t *testing.T) {
		log.t = t
		log.commit(0)
		_, err := log.primary.Exec(ctx, "select pg_switch_wal()")
		require.NoError(t, err)
		log.requireReached(log.capture())
	})
}

// walSteerer makes commits that end where a test wants them to.
type walSteerer struct {
	t                *testing.T
	ctx              context.Context
	primary, standby *pgx.Conn
	block, segment   uint64
	last             int // id of the last commit
	overhead         int // bytes of log that a commit takes beside its payload
}

func dial(ctx context.Context, t *testing.T, node *dbtest.PostgresNode) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(ctx, node.DSN())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.WithoutCancel(ctx))) })
	return conn
}

// commit inserts a row and writes a payload of n bytes to the log, in one transaction.
func (w *walSteerer) commit(n int) {
	w.t.Helper()
	w.last++
	_, err := w.primary.Exec(w.ctx, `with row as (insert into commits values ($1) returning id)
		select pg_logical_emit_message(true, 'x', repeat('x', $2)) from row`, w.last, n)
	require.NoError(w.t, err)
}

// capture returns the insert position as the server reports it, after a look at what has been flushed until then.
func (w *walSteerer) capture() core.LSN {
	w.t.Helper()
	var flushedText, rawText string
	require.NoError(w.t, w.primary.QueryRow(w.ctx,
		"select pg_current_wal_flush_lsn()::text, pg_current_wal_insert_lsn()::text").Scan(&flushedText, &rawText))
	flushed, raw := parse(w.t, flushedText), parse(w.t, rawText)
	require.GreaterOrEqual(w.t, raw.RoundDown(w.block, w.segment), flushed, "rounded below the flushed position, from %v", raw)
	return raw
}

// requireReached waits, writing nothing, until the standby has replayed the rounded form of raw. It returns what the
// standby reported then.
func (w *walSteerer) requireReached(raw core.LSN) (replayed core.LSN) {
	w.t.Helper()
	rounded := raw.RoundDown(w.block, w.segment)
	deadline, poll := time.After(10*time.Second), time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for replayed < rounded {
		var text string
		require.NoError(w.t, w.standby.QueryRow(w.ctx, "select pg_last_wal_replay_lsn()::text").Scan(&text))
		replayed = parse(w.t, text)
		select {
		case <-poll.C:
		case <-deadline:
			require.FailNowf(w.t, "an idle standby never gets there", "captured %v, rounded %v, replayed %v", raw, rounded, replayed)
		}
	}
	var visible int
	require.NoError(w.t, w.standby.QueryRow(w.ctx, "select max(id) from commits").Scan(&visible))
	require.Equal(w.t, w.last, visible, "the standby has replayed %v but does not show the commit captured at %v", replayed, raw)
	return replayed
}

// fillPage commits until a commit has filled its page to the last byte, and returns the insert position after it:
// past the header of a page that is the first of a segment, or of one that is not.
func (w *walSteerer) fillPage(endOfSegment bool) core.LSN {
	w.t.Helper()
	const leastPayload = 300 // below 256 bytes the record's own header is shorter
	header := uint64(24)     // SizeOfXLogShortPHD
	if endOfSegment {
		header = 40 // SizeOfXLogLongPHD
	}
	for range 1000 {
		before := w.capture()
		free := int(w.block - uint64(before)%w.block)
		toSegmentEnd := int(w.segment - uint64(before)%w.segment)
		payload := free - w.overhead
		switch {
		case endOfSegment && toSegmentEnd > 3*int(w.block):
			w.commit(toSegmentEnd - toSegmentEnd/100 - 2*int(w.block)) // nearly; page headers take less than 1 %
			continue
		case endOfSegment != (toSegmentEnd == free) || payload < leastPayload:
			w.commit(free) // on to the next page
			continue
		case w.overhead == 0:
			payload = free / 2 // the first time: see what the overhead is
		}
		w.commit(payload)
		after := w.capture()
		if uint64(after)/w.block == uint64(before)/w.block {
			w.overhead = int(after-before) - payload
			continue
		}
		// An offset of exactly a header is the boundary: the smallest record has 24 bytes of its own. Anything more was
		// overshot, by something that is not always written.
		if uint64(after)%w.block == header {
			return after
		}
	}
	require.FailNow(w.t, "no commit ended at the end of a page")
	return 0
}

func parse(t *testing.T, text string) core.LSN {
	t.Helper()
	l, err := core.ParseLSN(text)
	require.NoError(t, err)
	return l
}
