package readroute_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// conflicting are reads that go on for ever, until replay removes what they read.
type conflicting struct {
	c            *dbtest.PostgresCluster
	table, turns string
	query        string
	within       string // the same in a subtransaction: replay has to end the session
	function     string // of that
}

func newConflicting(t *testing.T) *conflicting {
	t.Helper()
	c := breakable(t)
	x := &conflicting{c: c, table: newTable(t, c, "id int"), turns: newTable(t, c, "n int")}
	x.query = "SELECT count(*) FROM " + x.table + " a, " + x.turns + " t, generate_series(1, t.n) g WHERE a.id > 0"
	x.function = "within_" + x.table
	x.within = "SELECT " + x.function + "() /* generate_series(1, t.n) */"
	require.NoError(t, c.Primary().Exec(testContext(t), "INSERT INTO "+x.table+" SELECT generate_series(1, 1000)",
		"CREATE FUNCTION "+x.function+"() RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN BEGIN RETURN ("+x.query+
			"); EXCEPTION WHEN division_by_zero THEN RETURN 0; END; END $$"))
	for _, n := range standbys(c) {
		require.NoError(t, n.Set(testContext(t), "max_standby_streaming_delay", "50ms"))
		t.Cleanup(func() { require.NoError(t, n.Set(context.Background(), "max_standby_streaming_delay", "30s")) })
	}
	return x
}

// cancelled calls read, which runs one of the queries, and has replay cancel it on its replica. Afterwards the query is quick.
func (x *conflicting) cancelled(t *testing.T, read func() error) error {
	t.Helper()
	primary := x.c.Primary()
	require.NoError(t, primary.Exec(testContext(t), "DELETE FROM "+x.turns, "INSERT INTO "+x.turns+" VALUES (100000000)"))
	require.NoError(t, x.c.WaitCaughtUp(testContext(t)))
	result := make(chan error, 1)
	go func() { result <- read() }()
	eventually(t, "the read runs", func() bool {
		select {
		case err := <-result:
			require.FailNow(t, "the read has ended by itself", "it returned %v", err)
		default:
		}
		for _, n := range standbys(x.c) {
			v, err := n.QueryValue(testContext(t), "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series(1, t.n)%'"+
				" AND clock_timestamp() - query_start > '100ms'"+ // not while it is only prepared
				" AND pid <> pg_backend_pid()")
			require.NoError(t, err)
			if v == "1" {
				return true
			}
		}
		return false
	})
	require.NoError(t, primary.Exec(testContext(t), "UPDATE "+x.turns+" SET n = 1"))
	require.NoError(t, x.c.WaitCaughtUp(testContext(t)))
	require.NoError(t, primary.Exec(testContext(t), "UPDATE "+x.table+" SET id = id + 1", "VACUUM "+x.table))
	return <-result
}

// TestK4_27_RecoveryConflict: replay cancels a read on a replica. Before any row it runs once more, elsewhere.
func TestK4_27_RecoveryConflict(t *testing.T) {
	x := newConflicting(t)
	config := configFor(x.c)
	config.ReadFunctions = []string{x.function}
	seen := record(&config)
	db := open(t, config)
	eventually(t, "both may serve", func() bool { return status(t, db, "b").LagKnown && status(t, db, "c").LagKnown })
	ctx := sessionContext(t)
	for _, query := range []string{x.query, x.within} {
		require.NoError(t, x.cancelled(t, func() error { return db.QueryRowContext(ctx, query).Scan(new(int)) }), query)
		require.Equal(t, readroute.RetryConflict, seen.one(t).Retry)
	}
	for _, query := range []string{x.query, x.within} {
		tx, err := db.BeginTx(ctx, readOnly)
		require.NoError(t, err)
		err = x.cancelled(t, func() error { return tx.QueryRowContext(ctx, query).Scan(new(int)) })
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, "in a transaction the error is the caller's")
		require.Equal(t, "40001", pg.Code)
		if query == x.within {
			require.Equal(t, "FATAL", pg.Severity)
		}
		_ = tx.Rollback() // replay may have ended the connection as well
	}
	require.NoError(t, db.QueryRowContext(ctx, "SELECT 1").Scan(new(int)))
	for _, n := range db.Nodes() {
		require.True(t, n.Healthy, n.Name)
	}
}

// TestConflictOfAnEventualRead: it has not asked for the primary. A report that replay cancels runs once more on a replica that may serve
// it, or fails; it never ends up on the primary.
func TestConflictOfAnEventualRead(t *testing.T) {
	x := newConflicting(t)
	for name, test := range map[string]struct {
		tags    [2][]string
		change  func(context.Context) context.Context
		another bool // replica may serve it
	}{
		"any replica":               {another: true},
		"a tag that both have":      {tags: [2][]string{{"analytics"}, {"analytics"}}, change: tagged, another: true},
		"a tag that one has":        {tags: [2][]string{{"analytics"}, nil}, change: tagged},
		"no tag, and the other has": {tags: [2][]string{nil, {"analytics"}}},
		"a node":                    {change: func(ctx context.Context) context.Context { return readroute.WithNode(ctx, "b") }},
		"a tag, and stale is allowed": {tags: [2][]string{{"analytics"}, nil}, change: func(ctx context.Context) context.Context {
			return readroute.WithFallback(tagged(ctx), readroute.FallbackStale)
		}},
	} {
		for _, query := range []string{x.query, x.within} {
			t.Run(name, func(t *testing.T) {
				config := configFor(x.c)
				config.ReadFunctions = []string{x.function}
				for i := range config.Replicas {
					config.Replicas[i].Tags = test.tags[i]
				}
				seen := record(&config)
				db := open(t, config)
				eventually(t, "both may serve", func() bool { return status(t, db, "b").LagKnown && status(t, db, "c").LagKnown })
				ctx := readroute.WithLevel(testContext(t), readroute.LevelEventual)
				if test.change != nil {
					ctx = test.change(ctx)
				}
				err := x.cancelled(t, func() error { return db.QueryRowContext(ctx, query).Scan(new(int)) })
				d := seen.one(t)
				require.Equal(t, readroute.RetryConflict, d.Retry)
				if test.another {
					require.NoError(t, err)
					require.Equal(t, readroute.RoleReplica, d.Role)
					return
				}
				var pg *pgconn.PgError
				require.ErrorAs(t, err, &pg)
				require.Equal(t, "40001", pg.Code)
				require.Empty(t, d.Node)
				require.ErrorIs(t, d.Err, readroute.ErrNoReplica)
			})
		}
	}
}

func tagged(ctx context.Context) context.Context { return readroute.WithTags(ctx, "analytics") }
