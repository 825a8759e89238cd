package readroute_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// The tests here and in the files beside it are named after the case of the collection that they are for.

func TestK2_01_TokenOutlivesTheProcess(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	quick(&config)
	first := open(t, config)
	seen := record(&config)
	second := open(t, config)

	pauseReplay(t, c)
	ctx := sessionContext(t)
	_, err := first.ExecContext(ctx, "INSERT INTO "+table+" VALUES (9)")
	require.NoError(t, err)
	token, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	require.LessOrEqual(t, len(token.String()), 64)
	carried, err := readroute.ParseToken(token.String())
	require.NoError(t, err)

	next := readroute.ContextWithSession(testContext(t), readroute.NewSession(carried))
	require.Equal(t, 1, count(t, next, second, table, 9))
	require.Equal(t, readroute.RolePrimary, seen.one(t).Role)
	resumeReplay(t, c)
	eventually(t, "a replica serves the token", func() bool {
		require.Equal(t, 1, count(t, next, second, table, 9))
		return seen.one(t).Role == readroute.RoleReplica
	})
}

func TestK2_04_RoutingFollowsTheText(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	seen := record(&config)
	db := open(t, config)
	ctx := sessionContext(t)
	rows, err := db.QueryContext(ctx, "DELETE FROM "+table+" WHERE id = 1 RETURNING id")
	require.NoError(t, err)
	require.NoError(t, rows.Close())
	require.NoError(t, rows.Err())
	d := seen.one(t)
	require.Equal(t, readroute.RolePrimary, d.Role)
	require.Equal(t, readroute.ReasonWrite, d.Reason)
	_, err = db.ExecContext(sessionContext(t), "SELECT 1")
	require.NoError(t, err)
	require.Equal(t, readroute.ClassRead, seen.one(t).Class)
}

func TestK2_05_SessionIsNotTheConnection(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	quick(&config)
	db := open(t, config)
	db.SetMaxOpenConns(8)
	pauseReplay(t, c)
	ctx := sessionContext(t)
	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	results := make(chan error, 64)
	for range cap(results) {
		go func() {
			var n int
			err := db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n)
			if err == nil && n != 1 {
				err = fmt.Errorf("read %d rows", n)
			}
			results <- err
		}()
	}
	for range cap(results) {
		require.NoError(t, <-results)
	}
}

func TestK2_06_JobsDoNotShare(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	quick(&config)
	seen := record(&config)
	db := open(t, config)
	process := testContext(t)
	job := func(write bool) readroute.Role {
		ctx := readroute.WithSession(process)
		if write {
			_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
			require.NoError(t, err)
		}
		seen.take()
		count(t, ctx, db, table, 1)
		return seen.one(t).Role
	}
	pauseReplay(t, c)
	require.Equal(t, readroute.RoleReplica, job(false))
	require.Equal(t, readroute.RolePrimary, job(true))
	require.Equal(t, readroute.RoleReplica, job(false))
}

func TestK2_07_OneWriterDoesNotPinTheOthers(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	seen := record(&config)
	db := open(t, config)
	writer, stop := context.WithCancel(sessionContext(t))
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for writer.Err() == nil {
			_, _ = db.ExecContext(writer, "INSERT INTO "+table+" VALUES (1)")
			<-tick.C
		}
	})
	reader := sessionContext(t)
	for range 300 {
		count(t, reader, db, table, 1)
	}
	stop()
	wg.Wait()
	for _, d := range seen.take() {
		if d.Class == readroute.ClassRead {
			require.Equal(t, readroute.RoleReplica, d.Role, "%+v", d)
			require.Equal(t, readroute.ReasonCovered, d.Reason)
		}
	}
}

func TestK2_09_LagLongerThanTheWindow(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	quick(&config)
	config.StickyWindow = 50 * time.Millisecond
	db := open(t, config)
	pauseReplay(t, c)
	ctx := sessionContext(t)
	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	written := time.Now()
	eventually(t, "half a second of lag", func() bool {
		require.Equal(t, 1, count(t, ctx, db, table, 1))
		return time.Since(written) > 500*time.Millisecond
	})
}

func TestK2_12_TransactionsBeginOnThePrimary(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	patient(&config)
	seen := record(&config)
	db := open(t, config)
	ctx := sessionContext(t)
	tx, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	var one int
	require.NoError(t, tx.QueryRowContext(ctx, "SELECT 1").Scan(&one))
	_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	for _, d := range seen.take() {
		require.Equal(t, c.Primary().Name(), d.Node)
		require.Equal(t, readroute.ReasonTx, d.Reason)
	}

	tx, err = db.BeginTx(ctx, readOnly)
	require.NoError(t, err)
	require.Equal(t, readroute.RoleReplica, seen.one(t).Role, "a read-only transaction goes where a read goes")
	require.Equal(t, 1, countIn(t, ctx, tx, table))
	require.Equal(t, readroute.RoleReplica, seen.one(t).Role)
	require.NoError(t, tx.Commit())
}

func TestK2_20_CacheFillWithTheToken(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	quick(&config)
	db := open(t, config)
	pauseReplay(t, c)
	writer := sessionContext(t)
	_, err := db.ExecContext(writer, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	token, err := readroute.SessionFrom(writer).Token(writer)
	require.NoError(t, err)
	fill := sessionContext(t)
	require.Zero(t, count(t, fill, db, table, 1), "without the token the fill is stale")
	readroute.SessionFrom(fill).Merge(token)
	require.Equal(t, 1, count(t, fill, db, table, 1))
}

func TestK2_23_WriteHiddenInAFunction(t *testing.T) {
	c := sharedCluster(t)
	table := newWritable(t, c)
	config := configFor(c)
	quick(&config)
	seen := record(&config)
	db := open(t, config)
	pauseReplay(t, c)
	ctx := sessionContext(t)
	var id int
	require.NoError(t, db.QueryRowContext(ctx, "SELECT add_"+table+"(1)").Scan(&id))
	require.Equal(t, readroute.ReasonUnknown, seen.one(t).Reason)
	require.Equal(t, 1, count(t, ctx, db, table, 1))
}

func TestK2_27_ReceivedIsNotVisible(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	quick(&config)
	seen := record(&config)
	db := open(t, config)
	pauseReplay(t, c)
	ctx := sessionContext(t)
	_, err := db.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	flushed := onPrimary(t, c, "SELECT pg_current_wal_flush_lsn()")
	for _, n := range standbys(c) {
		eventually(t, "the log has been received", func() bool {
			ok, err := n.QueryValue(testContext(t), fmt.Sprintf("SELECT pg_last_wal_receive_lsn() >= '%s'", flushed))
			require.NoError(t, err)
			return ok == "t"
		})
	}
	seen.take()
	require.Equal(t, 1, count(t, ctx, db, table, 1))
	require.Equal(t, readroute.RolePrimary, seen.one(t).Role)
}

type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// countIn reads how many rows table has.
func countIn(t testing.TB, ctx context.Context, q queryer, table string) int {
	t.Helper()
	var n int
	require.NoError(t, q.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n))
	return n
}
