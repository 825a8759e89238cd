package core_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
)

// masterGTIDWait asks the server whether it has a position, without waiting.
func masterGTIDWait(ctx context.Context, db *sql.DB, text string) (reached bool, err error) {
	var result int
	err = db.QueryRowContext(ctx, "SELECT MASTER_GTID_WAIT(?, 0)", text).Scan(&result)
	return result == 0, err
}

// MariaDB as the judge of texts, of their canonical form, and of what a replica has reached.
func TestMariaDBGTIDOnServers(t *testing.T) {
	t.Parallel()
	c := dbtest.StartMariaDBT(t, dbtest.MySQLOptions{Replicas: 1})
	ctx := t.Context()
	primary, replica := openServer(t, c.Primary()), openServer(t, c.Replica(0))

	t.Run("texts", func(t *testing.T) {
		for _, bad := range mariaBad {
			_, err := masterGTIDWait(ctx, replica, bad.text)
			if bad.byMariaDB {
				requireRefusal(t, err, errMalformedGTIDs, bad.text)
			} else {
				require.NoError(t, err, "MariaDB reads %q", bad.text)
			}
		}
		var texts []string
		for _, c := range mariaTexts {
			texts = append(texts, c.text)
		}
		parts := []string{"0-1-5", "1-1-1", "-", ",", "0", "7", "18446744073709551615", "4294967295", "4294967296", " ", "\n", "+", "x", "\x00", "é", ",2-3-4"}
		accepted, refused := 0, 0
		for _, text := range mutations(3000, 2, texts, parts) {
			_, serverErr := masterGTIDWait(ctx, replica, text)
			g, err := core.ParseMariaDBGTID(text)
			if err == nil {
				require.NoError(t, serverErr, "the server refuses %q", text)
				_, serverErr = masterGTIDWait(ctx, replica, g.String())
				require.NoError(t, serverErr, "the server refuses %q, which is made of %q", g.String(), text)
				accepted++
				continue
			}
			if serverErr != nil {
				requireRefusal(t, serverErr, errMalformedGTIDs, text)
				refused++
				continue
			}
			lenient := strings.ContainsAny(text, "+ \n") || strings.Contains(err.Error(), "occurs twice")
			require.True(t, lenient, "the server reads %q: %v", text, err)
		}
		t.Logf("%d accepted, %d refused by both", accepted, refused)
		require.Greater(t, accepted, 300)
		require.Greater(t, refused, 300)
	})

	t.Run("what a replica has reached", func(t *testing.T) {
		// A replica of nobody can be told what it has.
		require.NoError(t, c.Replica(0).Exec(ctx, "STOP SLAVE", "RESET MASTER"))
		random := rand.New(rand.NewPCG(4, 4))
		outcomes := map[core.Coverage]int{}
		for range 150 {
			var entries []core.MariaDBEntry
			for domain := range uint32(3) {
				if random.IntN(4) > 0 {
					entries = append(entries, core.MariaDBEntry{Domain: domain, Server: 1 + random.Uint32N(2), Sequence: 1 + random.Uint64N(6)})
				}
			}
			at := core.NewMariaDBGTID(entries...)
			require.NoError(t, c.Replica(0).Exec(ctx, fmt.Sprintf("SET GLOBAL gtid_slave_pos = '%s'", at)))
			require.Equal(t, at.String(), value(t, replica, "SELECT @@GLOBAL.gtid_slave_pos"))
			for range 12 {
				var entries []core.MariaDBEntry
				for range 1 + random.IntN(2) {
					entries = append(entries, core.MariaDBEntry{Domain: random.Uint32N(3), Server: 1 + random.Uint32N(2), Sequence: 1 + random.Uint64N(6)})
				}
				need := core.NewMariaDBGTID(entries...)
				reached, err := masterGTIDWait(ctx, replica, need.String())
				require.NoError(t, err)
				require.Equal(t, reached, need.CoveredBy(at, need.Union(at)) == core.Covered, "%v by %v, on one line", need, at)
				coverage := need.CoveredBy(at, core.MariaDBGTID{})
				if coverage != core.Incomparable {
					require.Equal(t, reached, coverage == core.Covered, "%v by %v", need, at)
				}
				outcomes[coverage]++
			}
		}
		require.Len(t, outcomes, 3)
	})

	t.Run("K5-23 the position of a write", func(t *testing.T) {
		conn, err := primary.Conn(ctx)
		require.NoError(t, err)
		defer conn.Close()
		before := maria(t, value(t, primary, "SELECT @@GLOBAL.gtid_current_pos"))
		_, err = conn.ExecContext(ctx, "CREATE TABLE t (id INT)")
		require.NoError(t, err)
		var last string
		require.NoError(t, conn.QueryRowContext(ctx, "SELECT @@last_gtid").Scan(&last))
		after := maria(t, value(t, primary, "SELECT @@GLOBAL.gtid_current_pos"))
		require.Equal(t, last, after.MovedSince(before).String())
		require.True(t, maria(t, value(t, primary, "SELECT @@GLOBAL.gtid_binlog_state")).Contains(after))
		order, comparable := before.Compare(after)
		require.Equal(t, []any{-1, true}, []any{order, comparable})
		require.Equal(t, core.NotCovered, after.CoveredBy(before, core.MariaDBGTID{}))
	})
}

// A write that the new primary never received: MariaDB's own order says that it is there.
func TestMariaDBOrderHidesALoss(t *testing.T) {
	t.Parallel()
	c := dbtest.StartMariaDBT(t, dbtest.MySQLOptions{Replicas: 1})
	ctx, old, new := t.Context(), c.Primary(), c.Replica(0)
	require.NoError(t, old.Exec(ctx, "CREATE TABLE t (id INT)"))
	require.NoError(t, c.WaitCaughtUp(ctx))
	kept, err := old.Position(ctx)
	require.NoError(t, err)
	require.NoError(t, new.StopReceiver(ctx))
	require.NoError(t, old.Exec(ctx, "INSERT INTO t VALUES (1)"))
	lost, err := old.Position(ctx)
	require.NoError(t, err)
	require.NoError(t, old.Kill(ctx))
	require.NoError(t, new.Promote(ctx))
	require.NoError(t, new.Exec(ctx, "INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (3)"))
	_, err = c.AddReplica(ctx)
	require.NoError(t, err)
	replica := openServer(t, c.Replica(1))
	require.NoError(t, c.WaitCaughtUp(ctx))

	state := maria(t, value(t, openServer(t, new), "SELECT @@GLOBAL.gtid_binlog_state"))
	position := maria(t, value(t, replica, "SELECT @@GLOBAL.gtid_slave_pos"))
	reached, err := masterGTIDWait(ctx, replica, lost)
	require.NoError(t, err)
	require.True(t, reached, "what MariaDB says of %s at %v", lost, position)
	require.Equal(t, core.Incomparable, maria(t, lost).CoveredBy(position, state))
	require.Equal(t, lost, maria(t, lost).Difference(state).String())
	require.Equal(t, core.Covered, maria(t, kept).CoveredBy(position, state))
	require.True(t, state.Contains(maria(t, kept)))
}
