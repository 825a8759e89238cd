package replicatest_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/replicatest"
)

// shy opens connections to a database that does not say what it is.
type shy struct{ driver.Connector }

func (s shy) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return shyConn{c.(nativeConn)}, nil
}

type nativeConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type shyConn struct{ nativeConn }

// shyError says no more than a text.
type shyError struct{ text string }

func (e shyError) Error() string { return e.text }

func (c shyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if strings.Contains(strings.ToLower(query), "version()") {
		return nil, shyError{"no such function"}
	}
	rows, err := c.nativeConn.QueryContext(ctx, query, args)
	return rows, shyly(err)
}

func (c shyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.nativeConn.ExecContext(ctx, query, args)
	return result, shyly(err)
}

func shyly(err error) error {
	if err == nil || errors.Is(err, driver.ErrBadConn) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return shyError{err.Error()}
}

// TestConformanceOfAnUnknownDatabase: of a database of which nothing is known, whose errors tell nothing, a session sees its writes, and what is
// read by every dialect leaves the primary.
func TestConformanceOfAnUnknownDatabase(t *testing.T) {
	t.Parallel()
	e := &engine{name: "unknown", cluster: replicatest.NewT(t, replicatest.Options{}), marked: true}
	table := e.table(t)
	var seen decisions
	db := e.open(t, &seen, func(config *readroute.Config) {
		config.Primary.Connector = shy{config.Primary.Connector}
		for i := range config.Replicas {
			config.Replicas[i].Connector = shy{config.Replicas[i].Connector}
		}
	})
	require.Equal(t, "SQL database", db.RouteStats().Engine)
	for id := range 20 {
		ctx := sessionContext(t)
		resume := e.pause(t)
		if id%2 == 0 {
			e.insert(t, ctx, db, table, id)
		} else {
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES (?, 0)", id)
			require.NoError(t, err)
			require.NoError(t, tx.Commit())
		}
		require.Equal(t, 1, e.count(t, ctx, db, table, id))
		require.NotEqual(t, readroute.ReasonSticky, seen.last(t).Reason, "it has a position")
		resume()
		eventually(t, "a replica serves the session", func() bool {
			require.Equal(t, 1, e.count(t, ctx, db, table, id))
			return seen.last(t).Role == readroute.RoleReplica
		})
		fresh := sessionContext(t)
		_, err := db.ExecContext(fresh, "INSERT INTO "+table+" VALUES (?, 0)", id)
		require.Error(t, err)
		require.NotErrorIs(t, err, readroute.ErrCommitUnknown)
		e.count(t, fresh, db, table, id)
		require.NotEqual(t, readroute.ReasonSticky, seen.last(t).Reason, "it was rolled back")
	}
	ctx := sessionContext(t)
	_, err := db.ExecContext(ctx, "CREATE INDEX i"+table+" ON "+table+" (n)")
	require.NoError(t, err)
	e.count(t, ctx, db, table, 1)
	require.Equal(t, readroute.ReasonSticky, seen.last(t).Reason, "nobody knows whether that commits by itself")
	require.NoError(t, db.QueryRowContext(ctx, "SELECT ifnull(1, 2)").Scan(new(int)))
	require.Equal(t, readroute.ReasonUnknown, seen.last(t).Reason, "not every dialect has it")
}
