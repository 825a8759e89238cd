package readroute_test

import (
	"context"
	"encoding/binary"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

func TestSticky(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	config.Strategy = readroute.Sticky(300 * time.Millisecond)
	seen := record(&config)
	db := open(t, config)
	pauseReplay(t, c)
	ctx := sessionContext(t)
	require.Zero(t, countIn(t, ctx, db, table))
	require.Equal(t, readroute.RoleReplica, seen.one(t).Role, "nothing was written")

	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	written := time.Now()
	token, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	carried := readroute.ContextWithSession(testContext(t), readroute.NewSession(token))
	seen.take()
	eventually(t, "the window ends", func() bool {
		for _, ctx := range []context.Context{ctx, carried} {
			at := time.Since(written)
			n := countIn(t, ctx, db, table)
			d := seen.one(t)
			if at > 300*time.Millisecond {
				require.Equal(t, readroute.RoleReplica, d.Role, "best effort: after the window a lagging replica serves")
				require.Zero(t, n)
				continue
			}
			if d.Role == readroute.RoleReplica {
				require.Greater(t, time.Since(written), 300*time.Millisecond)
				continue
			}
			require.Equal(t, 1, n)
			require.Equal(t, readroute.ReasonSticky, d.Reason)
		}
		return time.Since(written) > 400*time.Millisecond
	})

	other := sessionContext(t)
	countIn(t, other, db, table)
	require.Equal(t, readroute.RoleReplica, seen.one(t).Role)
	require.NoError(t, db.Fence(other))
	require.Equal(t, 1, countIn(t, other, db, table))
	require.Equal(t, readroute.ReasonSticky, seen.one(t).Reason)
}

// TestStickyTokenOfAnotherClock: a token whose time of the write is all it tells holds a session to the primary for the window by
// every clock, also in a process that goes by positions.
func TestStickyTokenOfAnotherClock(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	codec, err := readroute.NewCodec(readroute.CodecConfig{Unsigned: true, ClockSkew: 30 * time.Second})
	require.NoError(t, err)
	pools := map[string]*readroute.DB{}
	seen := map[string]*decisions{}
	for name, strategy := range map[string]readroute.Strategy{
		"sticky": readroute.Sticky(15 * time.Second), "position wait": readroute.PositionWait(0),
	} {
		config := configFor(c)
		config.Strategy = strategy
		seen[name] = record(&config)
		pools[name] = open(t, config)
	}
	read := func(name string, tokens ...readroute.Token) (int, readroute.Decision) {
		t.Helper()
		seen[name].take()
		n := countIn(t, readroute.ContextWithSession(testContext(t), readroute.NewSession(tokens...)), pools[name], table)
		return n, seen[name].one(t)
	}
	pauseReplay(t, c)
	ctx := sessionContext(t)
	_, err = pools["sticky"].ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)

	tell := func(version byte, ago time.Duration) string {
		at := uint64(time.Now().Add(-ago).UnixMilli())
		return tokenBytes(binary.AppendUvarint(tokenBytes{version, 1}.name("main").bytes(1), at)).bytes(0).text()
	}
	for name := range pools {
		text, err := readroute.ParseToken(tell(1, 20*time.Second)) // by a clock that may be 20 s behind
		require.NoError(t, err)
		decoded, err := codec.Decode(tell(2, 20*time.Second))
		require.NoError(t, err)
		for _, token := range []readroute.Token{text, decoded} {
			n, d := read(name, token)
			require.Equal(t, 1, n, name)
			require.Equal(t, readroute.ReasonSticky, d.Reason, name)
		}
		longAgo, err := codec.Decode(tell(2, 46*time.Second))
		require.NoError(t, err)
		_, d := read(name, longAgo)
		require.Equal(t, readroute.RoleReplica, d.Role, "it was longer ago by any clock")
	}

	// What a sticky process has written a process that goes by positions does not take for shown.
	token, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	system, err := strconv.ParseUint(onPrimary(t, c, "SELECT system_identifier FROM pg_control_system()"), 10, 64)
	require.NoError(t, err)
	for _, tokens := range [][]readroute.Token{{token}, {craft(t, "main", system, 1, 1), token}} { // every replica shows that position
		n, d := read("position wait", tokens...)
		require.Equal(t, 1, n)
		require.Equal(t, readroute.ReasonSticky, d.Reason)
	}
	store := readroute.NewMemoryTokenStore(time.Hour)
	require.NoError(t, store.Merge(testContext(t), "ada", token))
	_, err = codec.Load(testContext(t), store, "ada", pools["position wait"])
	require.NoError(t, err)
	kept, err := store.Load(testContext(t), "ada")
	require.NoError(t, err)
	require.False(t, kept.IsZero())
}

func TestStickyWriteThatHandsOutRows(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	config.Strategy = readroute.Sticky(time.Minute)
	seen := record(&config)
	db := open(t, config)
	ctx := sessionContext(t)
	rows, err := db.QueryContext(ctx, "INSERT INTO "+table+" SELECT generate_series(1, 1000) RETURNING id")
	require.NoError(t, err)
	seen.take()
	countIn(t, ctx, db, table)
	require.Equal(t, readroute.ReasonSticky, seen.one(t).Reason)
	require.NoError(t, rows.Close())
	require.NoError(t, rows.Err())
	require.Equal(t, 1000, countIn(t, ctx, db, table))
	require.Equal(t, readroute.ReasonSticky, seen.one(t).Reason)
}

func TestLevels(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	quick(&config)
	seen := record(&config)
	db := open(t, config)
	pauseReplay(t, c)
	ctx := wrote(t, db, table)
	for _, tc := range []struct {
		ctx    context.Context
		rows   int
		role   readroute.Role
		reason readroute.Reason
		level  readroute.Level
	}{
		{ctx, 1, readroute.RolePrimary, readroute.ReasonWaitTimeout, readroute.LevelSession},
		{readroute.WithLevel(ctx, readroute.LevelEventual), 0, readroute.RoleReplica, readroute.ReasonLevel, readroute.LevelEventual},
		{readroute.WithLevel(ctx, readroute.LevelPrimary), 1, readroute.RolePrimary, readroute.ReasonLevel, readroute.LevelPrimary},
		{readroute.WithLevel(ctx, -42), 1, readroute.RolePrimary, readroute.ReasonLevel, readroute.LevelPrimary},
		{readroute.WithLevel(readroute.WithLevel(ctx, readroute.LevelEventual), 0), 1, readroute.RolePrimary, readroute.ReasonWaitTimeout, readroute.LevelSession},
		{readroute.ContextWithSession(ctx, nil), 1, readroute.RolePrimary, readroute.ReasonNoSession, 0},
		{readroute.WithLevel(readroute.ContextWithSession(ctx, nil), readroute.LevelEventual), 0, readroute.RoleReplica, readroute.ReasonLevel, readroute.LevelEventual},
	} {
		seen.take()
		require.Equal(t, tc.rows, countIn(t, tc.ctx, db, table))
		d := seen.one(t)
		require.Equal(t, tc.role, d.Role, "%+v", d)
		require.Equal(t, tc.level, d.Level, "%+v", d)
		if tc.reason == readroute.ReasonWaitTimeout {
			require.Contains(t, []readroute.Reason{readroute.ReasonWaitTimeout, readroute.ReasonHopeless}, d.Reason)
			continue
		}
		require.Equal(t, tc.reason, d.Reason, "%+v", d)
	}
}

func TestWithWait(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	config.Strategy = readroute.PositionWait(0)
	seen := record(&config)
	db := open(t, config)
	pauseReplay(t, c)
	ctx := wrote(t, db, table)
	seen.take()
	require.Equal(t, 1, countIn(t, ctx, db, table))
	d := seen.one(t)
	require.Equal(t, readroute.ReasonLagging, d.Reason, "it may not wait")
	require.Zero(t, d.Waited)

	time.AfterFunc(50*time.Millisecond, func() { resumeReplay(t, c) })
	require.Equal(t, 1, countIn(t, readroute.WithWait(ctx, 10*time.Second), db, table))
	d = seen.one(t)
	require.Equal(t, readroute.RoleReplica, d.Role, "%+v", d)
	require.Equal(t, readroute.ReasonWaited, d.Reason)
	require.Greater(t, d.Waited, 10*time.Millisecond)

	pauseReplay(t, c)
	ctx = wrote(t, db, table)
	short, cancel := context.WithTimeout(readroute.WithWait(ctx, time.Minute), 2*time.Second)
	defer cancel()
	seen.take()
	require.Equal(t, 2, countIn(t, short, db, table), "there is time left for the primary")
	d = seen.one(t)
	require.Equal(t, readroute.RolePrimary, d.Role)
	require.LessOrEqual(t, d.Waited, 1500*time.Millisecond)
	ended, cancel := context.WithCancel(readroute.WithWait(ctx, time.Minute))
	time.AfterFunc(50*time.Millisecond, cancel)
	require.ErrorIs(t, db.QueryRowContext(ended, "SELECT count(*) FROM "+table).Scan(new(int)), context.Canceled)
	require.Equal(t, 2, countIn(t, readroute.WithWait(ctx, -time.Second), db, table), "less than nothing is nothing")
}

func TestFallbackErrorAndStale(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	quick(&config)
	config.Fallback = readroute.FallbackStale
	seen := record(&config)
	db := open(t, config)
	pauseReplay(t, c)
	ctx := wrote(t, db, table)
	seen.take()
	require.Zero(t, countIn(t, ctx, db, table))
	require.Equal(t, readroute.ReasonStale, seen.one(t).Reason)
	require.Equal(t, 1, countIn(t, readroute.WithFallback(ctx, readroute.FallbackPrimary), db, table))
	require.Equal(t, readroute.RolePrimary, seen.one(t).Role)
	failing := readroute.WithFallback(ctx, readroute.FallbackError)
	require.ErrorIs(t, db.QueryRowContext(failing, "SELECT 1").Scan(new(int)), readroute.ErrNotCaughtUp)
	require.Zero(t, countIn(t, readroute.WithFallback(failing, 0), db, table), "taken back")
}

func TestWithNode(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	quick(&config)
	seen := record(&config)
	db := open(t, config)
	ctx := sessionContext(t)
	for _, n := range c.Nodes() {
		for range 20 {
			countIn(t, readroute.WithNode(ctx, n.Name()), db, table)
			d := seen.one(t)
			require.Equal(t, n.Name(), d.Node)
			require.Equal(t, readroute.ReasonContext, d.Reason)
		}
	}
	toReplica := readroute.WithNode(ctx, standbys(c)[0].Name())
	_, err := db.ExecContext(toReplica, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err, "writes are not affected")
	require.Equal(t, readroute.ReasonWrite, seen.one(t).Reason)
	pauseReplay(t, c)
	behind := readroute.WithNode(wrote(t, db, table), standbys(c)[0].Name())
	seen.take()
	require.Equal(t, 2, countIn(t, behind, db, table), "it does not weaken what the session needs")
	require.Equal(t, readroute.RolePrimary, seen.one(t).Role)

	err = db.QueryRowContext(readroute.WithNode(ctx, "nobody"), "SELECT 1").Scan(new(int))
	require.ErrorIs(t, err, readroute.ErrUnknownNode)
	require.NoError(t, db.QueryRowContext(readroute.WithNode(readroute.WithNode(ctx, "nobody"), ""), "SELECT 1").Scan(new(int)))
}

func TestWithoutSession(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	for _, tc := range []struct {
		mode   readroute.WithoutSession
		reason []readroute.Reason
		rows   int
	}{
		{readroute.WithoutSessionPrimary, []readroute.Reason{readroute.ReasonNoSession}, 1},
		{readroute.WithoutSessionEventual, []readroute.Reason{readroute.ReasonLevel}, 0},
		{readroute.WithoutSessionProcess, []readroute.Reason{readroute.ReasonWaitTimeout, readroute.ReasonHopeless}, 1},
	} {
		require.NoError(t, c.Primary().Exec(testContext(t), "TRUNCATE "+table))
		config := configFor(c)
		quick(&config)
		config.WithoutSession = tc.mode
		seen := record(&config)
		db := open(t, config)
		pauseReplay(t, c)
		wrote(t, db, table) // another session of the same process
		seen.take()
		require.Equal(t, tc.rows, countIn(t, testContext(t), db, table))
		require.Contains(t, tc.reason, seen.one(t).Reason)
		require.Zero(t, countIn(t, sessionContext(t), db, table), "a session of its own asks for its own writes only")
		resumeReplay(t, c)
	}
}

func TestFence(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	quick(&config)
	seen := record(&config)
	db := open(t, config)
	pauseReplay(t, c)
	// Somebody else writes: past the routed pool, and through the primary's plain pool.
	require.NoError(t, c.Primary().Exec(testContext(t), "INSERT INTO "+table+" VALUES (1)"))
	ctx := sessionContext(t)
	_, err := db.PrimaryDB().ExecContext(ctx, "INSERT INTO "+table+" VALUES (2)")
	require.NoError(t, err)
	require.Zero(t, countIn(t, ctx, db, table))
	require.NoError(t, db.Fence(ctx))
	seen.take()
	require.Equal(t, 2, countIn(t, ctx, db, table))
	require.Equal(t, readroute.RolePrimary, seen.one(t).Role)
	token, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	require.False(t, token.IsZero(), "a fence travels")
	resumeReplay(t, c)
	eventually(t, "a replica serves the session", func() bool {
		seen.take()
		require.Equal(t, 2, countIn(t, ctx, db, table))
		return seen.one(t).Role == readroute.RoleReplica
	})

	require.Error(t, db.Fence(testContext(t)), "there is no session")
	cancelled, cancel := context.WithCancel(sessionContext(t))
	cancel()
	require.ErrorIs(t, db.Fence(cancelled), context.Canceled)
	failed := readroute.ContextWithSession(testContext(t), readroute.SessionFrom(cancelled))
	seen.take()
	countIn(t, failed, db, table)
	require.NotZero(t, seen.one(t))
	token, err = readroute.SessionFrom(failed).Token(failed)
	require.NoError(t, err)
	require.False(t, token.IsZero(), "a fence that failed is no fence that was not asked for")
}

// TestFenceWhileThePrimaryIsSilent: a fence comes back from a primary that does not answer, without any deadline of the caller's, and
// holds its session all the same, for however long it takes until the primary tells what it had.
func TestFenceWhileThePrimaryIsSilent(t *testing.T) {
	c := breakable(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	config.StickyWindow = 50 * time.Millisecond
	seen := record(&config)
	db := open(t, config)
	pauseReplay(t, c)
	require.NoError(t, c.Primary().Exec(testContext(t), "INSERT INTO "+table+" VALUES (1)"))
	require.NoError(t, c.Primary().Freeze(testContext(t)))
	ctx := readroute.WithSession(context.Background())
	began := time.Now()
	require.NoError(t, db.Fence(ctx))
	require.Less(t, time.Since(began), readroute.DefaultCaptureTimeout+5*time.Second, "a busy machine, and no more")
	<-time.After(2 * config.StickyWindow)
	failing := readroute.WithFallback(ctx, readroute.FallbackError)
	for range 3 {
		require.ErrorIs(t, db.QueryRowContext(failing, "SELECT count(*) FROM "+table).Scan(new(int)), readroute.ErrNotCaughtUp)
	}
	require.NoError(t, c.Primary().Thaw(testContext(t)))
	require.Equal(t, 1, countIn(t, ctx, db, table))
	resumeReplay(t, c)
	eventually(t, "a replica serves the session", func() bool {
		seen.take()
		require.Equal(t, 1, countIn(t, ctx, db, table))
		return seen.one(t).Role == readroute.RoleReplica
	})
}
