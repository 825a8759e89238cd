package readroute_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// noted are columns of a table whose rows can be told apart on the wire, also in binary form.
const noted = "n INT AUTO_INCREMENT PRIMARY KEY, id INT, note VARCHAR(40)"

// needle is a value that a proxy looks for.
const needle = "needle-in-a-packet"

// gtidBehindProxy returns a config whose primary is reached through a proxy.
func gtidBehindProxy(t testing.TB, c *dbtest.MySQLCluster) (readroute.Config, *dbtest.Proxy) {
	t.Helper()
	proxy, err := dbtest.NewProxy(c.Primary().Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	config := gtidConfig(c, dbtest.AppUser)
	config.Primary.Connector = readroute.MySQL(c.Primary().DSNVia(proxy, dbtest.AppUser))
	quick(&config)
	return config, proxy
}

// gtidUnknown is a write whose answer never comes although it is committed, now or later.
type gtidUnknown struct {
	name    string
	mariadb bool // only there
	// write makes the write of row 1, which must not be on a replica before the appliers are paused. It returns the error.
	write func(u *gtidUnknownWrite) error
	cause error // the driver's own error
}

type gtidUnknownWrite struct {
	testing.TB
	c     *dbtest.MySQLCluster
	db    *readroute.DB
	proxy *dbtest.Proxy
	table string
	ctx   context.Context
}

// pause stops the appliers once there is a connection to write on.
func (u *gtidUnknownWrite) pause() {
	require.NoError(u, u.db.PingContext(u.ctx))
	holdBack(u, u.c)
}

func (u *gtidUnknownWrite) ok(_ sql.Result, err error) { require.NoError(u, err) }

func (u *gtidUnknownWrite) begin(ctx context.Context) *sql.Tx {
	tx, err := u.db.BeginTx(ctx, nil)
	require.NoError(u, err)
	return tx
}

func (u *gtidUnknownWrite) insert() string { return "INSERT INTO " + u.table + " (id) VALUES (1)" }

// slow inserts the row after a quarter of a second.
func (u *gtidUnknownWrite) slow() string {
	return "INSERT INTO " + u.table + " (id) SELECT 1 + 0 * SLEEP(0.25)"
}

// prepared inserts the row with arguments.
func (u *gtidUnknownWrite) prepared() string {
	return "INSERT INTO " + u.table + " (id, note) VALUES (?, ?)"
}

// short is a context that ends long before a slow write does.
func (u *gtidUnknownWrite) short() context.Context {
	ctx, cancel := context.WithTimeout(u.ctx, 80*time.Millisecond)
	u.Cleanup(cancel)
	return ctx
}

var gtidUnknowns = []gtidUnknown{
	{name: "COMMIT whose answer is cut off", cause: mysql.ErrInvalidConn, write: func(u *gtidUnknownWrite) error {
		tx := u.begin(u.ctx)
		u.ok(tx.ExecContext(u.ctx, u.insert()))
		u.pause()
		u.proxy.OnClientData(dbtest.Once("commit", dbtest.CutAfter))
		return tx.Commit()
	}},
	{name: "COMMIT by text whose answer is cut off", cause: mysql.ErrInvalidConn, write: func(u *gtidUnknownWrite) error {
		conn, err := u.db.Conn(u.ctx)
		require.NoError(u, err)
		defer conn.Close()
		u.ok(conn.ExecContext(u.ctx, "START TRANSACTION"))
		u.ok(conn.ExecContext(u.ctx, u.insert()))
		u.pause()
		u.proxy.OnClientData(dbtest.Once("commit", dbtest.CutAfter))
		_, err = conn.ExecContext(u.ctx, "COMMIT")
		return err
	}},
	{name: "COMMIT by text in a Tx whose answer is cut off", cause: mysql.ErrInvalidConn, write: func(u *gtidUnknownWrite) error {
		tx := u.begin(u.ctx)
		u.ok(tx.ExecContext(u.ctx, u.insert()))
		u.pause()
		u.proxy.OnClientData(dbtest.Once("commit", dbtest.CutAfter))
		_, err := tx.ExecContext(u.ctx, "COMMIT")
		_ = tx.Rollback()
		return err
	}},
	{name: "DDL in a Tx whose answer is cut off", cause: mysql.ErrInvalidConn, write: func(u *gtidUnknownWrite) error {
		tx := u.begin(u.ctx)
		u.ok(tx.ExecContext(u.ctx, u.insert()))
		u.pause()
		u.proxy.OnClientData(dbtest.Once("alter table", dbtest.CutAfter)) // which commits what is before it
		_, err := tx.ExecContext(u.ctx, "ALTER TABLE "+u.table+" ADD COLUMN more INT")
		_ = tx.Rollback()
		return err
	}},
	{name: "Exec whose answer is cut off", cause: mysql.ErrInvalidConn, write: func(u *gtidUnknownWrite) error {
		u.pause()
		u.proxy.OnClientData(dbtest.Once("insert into", dbtest.CutAfter))
		_, err := u.db.ExecContext(u.ctx, u.insert())
		return err
	}},
	{name: "Exec with arguments whose answer is cut off", cause: mysql.ErrInvalidConn, write: func(u *gtidUnknownWrite) error {
		u.pause()
		u.proxy.OnClientData(dbtest.Once(needle, dbtest.CutAfter))
		_, err := u.db.ExecContext(u.ctx, u.prepared(), 1, needle)
		return err
	}},
	{name: "prepared Exec whose answer is cut off", cause: mysql.ErrInvalidConn, write: func(u *gtidUnknownWrite) error {
		stmt, err := u.db.PrepareContext(u.ctx, u.prepared())
		require.NoError(u, err)
		defer stmt.Close()
		u.pause()
		u.proxy.OnClientData(dbtest.Once(needle, dbtest.CutAfter))
		_, err = stmt.ExecContext(u.ctx, 1, needle)
		return err
	}},
	{name: "CALL whose answer is cut off", cause: mysql.ErrInvalidConn, write: func(u *gtidUnknownWrite) error {
		u.pause()
		u.proxy.OnClientData(dbtest.Once("call put", dbtest.CutAfter))
		_, err := u.db.ExecContext(u.ctx, "CALL put_"+u.table+"(1, 0)")
		return err
	}},
	{name: "QueryRow whose answer is cut off", mariadb: true, cause: mysql.ErrInvalidConn, write: func(u *gtidUnknownWrite) error {
		u.pause()
		u.proxy.OnClientData(dbtest.Once("returning", dbtest.CutAfter))
		return u.db.QueryRowContext(u.ctx, u.insert()+" RETURNING id").Scan(new(int))
	}},
	{name: "Exec that outlasts its context", cause: context.DeadlineExceeded, write: func(u *gtidUnknownWrite) error {
		u.pause()
		_, err := u.db.ExecContext(u.short(), u.slow())
		return err
	}},
	{name: "prepared Exec that outlasts its context", cause: context.DeadlineExceeded, write: func(u *gtidUnknownWrite) error {
		stmt, err := u.db.PrepareContext(u.ctx, "INSERT INTO "+u.table+" (id) SELECT ? + 0 * SLEEP(0.25)")
		require.NoError(u, err)
		defer stmt.Close()
		u.pause()
		_, err = stmt.ExecContext(u.short(), 1)
		return err
	}},
	{name: "CALL that outlasts its context", cause: context.DeadlineExceeded, write: func(u *gtidUnknownWrite) error {
		u.pause()
		_, err := u.db.ExecContext(u.short(), "CALL put_"+u.table+"(1, 0.25)")
		return err
	}},
	{name: "CALL through Query that outlasts its context", cause: context.DeadlineExceeded, write: func(u *gtidUnknownWrite) error {
		u.pause()
		rows, err := u.db.QueryContext(u.short(), "CALL put_"+u.table+"(1, 0.25)")
		if err == nil {
			err = errors.Join(rows.Close(), rows.Err())
		}
		return err
	}},
	{name: "several statements that outlast their context", cause: context.DeadlineExceeded, write: func(u *gtidUnknownWrite) error {
		u.pause()
		_, err := u.db.ExecContext(u.short(), "SELECT 1; "+u.slow())
		return err
	}},
	{name: "function that outlasts its context", cause: context.DeadlineExceeded, write: func(u *gtidUnknownWrite) error {
		u.pause()
		return u.db.QueryRowContext(u.short(), "SELECT add_"+u.table+"(1, 0.25)").Scan(new(int))
	}},
}

// newGTIDWritable makes a table with the columns noted, and a procedure and a function that insert a row after a while.
func newGTIDWritable(t testing.TB, c *dbtest.MySQLCluster) string {
	t.Helper()
	table := newGTIDTable(t, c, noted)
	for _, n := range c.Nodes() {
		execOn(t, n, "SET GLOBAL log_bin_trust_function_creators = 1")
	}
	execOn(t, c.Primary(),
		fmt.Sprintf("CREATE PROCEDURE put_%[1]s(i INT, s DOUBLE) BEGIN DO SLEEP(s); INSERT INTO %[1]s (id) VALUES (i); END", table),
		fmt.Sprintf("CREATE FUNCTION add_%[1]s(i INT, s DOUBLE) RETURNS INT BEGIN DO SLEEP(s); INSERT INTO %[1]s (id) VALUES (i); RETURN i; END", table))
	return table
}

// TestK2_18_GTIDUnknownOutcomes: nobody can say whether the write stands, and it may stand only later. The session reads from
// the primary until a position covers it for certain. The user has no rights but those to the application's data.
func TestK2_18_GTIDUnknownOutcomes(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		for _, tc := range gtidUnknowns {
			if tc.mariadb && !c.IsMariaDB() {
				continue
			}
			t.Run(tc.name, func(t *testing.T) {
				for try := 1; !gtidUnknownOutcome(t, c, tc); try++ {
					require.Less(t, try, 5, "the write never begins before it is cancelled")
				}
			})
		}
	})
}

// gtidUnknownOutcome reports whether the write was made: a busy server may not have begun when its client is gone.
func gtidUnknownOutcome(t *testing.T, c *dbtest.MySQLCluster, tc gtidUnknown) bool {
	config, proxy := gtidBehindProxy(t, c)
	config.Primary.Connector = readroute.MySQL(c.Primary().DSNVia(proxy, dbtest.AppUser) + "?multiStatements=true")
	seen := record(&config)
	u := &gtidUnknownWrite{TB: t, c: c, db: open(t, config), proxy: proxy, table: newGTIDWritable(t, c), ctx: sessionContext(t)}
	defer letGo(t, c)
	err := tc.write(u)
	require.ErrorIs(t, err, readroute.ErrCommitUnknown)
	require.NotErrorIs(t, err, driver.ErrBadConn, "database/sql would run it again")
	require.ErrorIs(t, err, tc.cause, "the driver's own error must be matched as well")
	for _, d := range seen.take() {
		require.Empty(t, d.Retry, "%+v", d)
	}

	stand := "SELECT COUNT(*) FROM " + u.table + " WHERE id = 1"
	for stands := false; !stands; {
		// In this order: a write that is not under way any more has either left its row or never will.
		underway := gtidUnderway(t, c.Primary(), u.table)
		stands = ask(t, c.Primary(), stand) == "1"
		if !stands && !underway {
			return false
		}
		n := rowsOf(t, u.ctx, u.db, u.table, 1)
		d := seen.one(t)
		if ask(t, c.Primary(), stand) == "1" { // else it may have been given up between the two
			require.Equal(t, readroute.RolePrimary, d.Role, "%+v", d)
		}
		if stands {
			require.Equal(t, 1, n, "the write stands and its session does not see it: %+v", d)
		}
	}
	letGo(t, c)
	eventually(t, "a replica serves the session", func() bool {
		require.Equal(t, 1, rowsOf(t, u.ctx, u.db, u.table, 1))
		return seen.one(t).Role == readroute.RoleReplica
	})
	require.Equal(t, "1", ask(t, c.Primary(), stand), "nothing is run twice")
	return true
}

// gtidUnderway reports whether a server session is at work on a table, or sleeps before it is, or commits.
func gtidUnderway(t testing.TB, n *dbtest.MySQLNode, table string) bool {
	t.Helper()
	return ask(t, n, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND <> 'Sleep' AND ID <> CONNECTION_ID()"+
		" AND (INFO LIKE '%"+table+"%' OR INFO LIKE 'commit%' OR INFO LIKE '%sleep(%')") != "0"
}

// TestGTIDTokenOfUnknownOutcome: a token that cannot wait for the outcome is safe.
func TestGTIDTokenOfUnknownOutcome(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		config, _ := gtidBehindProxy(t, c)
		seen := record(&config)
		db := open(t, config)
		table := newGTIDWritable(t, c)
		ctx := sessionContext(t)
		require.NoError(t, db.PingContext(ctx))
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond) // for the server to begin
		defer cancel()
		_, err := db.ExecContext(short, "CALL put_"+table+"(1, 0.6)")
		require.ErrorIs(t, err, readroute.ErrCommitUnknown)

		early, err := readroute.SessionFrom(ctx).Token(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		late := tokenOf(t, ctx) // waits until the server session is gone
		require.Equal(t, "1", ask(t, c.Primary(), "SELECT COUNT(*) FROM "+table))

		seen.take()
		rowsOf(t, carrying(t, early), db, table, 1)
		require.Equal(t, readroute.ReasonSticky, seen.one(t).Reason)
		lateCtx := carrying(t, late)
		eventually(t, "a replica serves the late token", func() bool {
			require.Equal(t, 1, rowsOf(t, lateCtx, db, table, 1))
			return seen.one(t).Role == readroute.RoleReplica
		})
	})
}

// TestGTIDStuckServerSessionIsEnded: a server session that goes on with a write nobody waits for is ended (KILL), by its own
// user. One that is in a routine of another definer cannot be ended so; the session is held to the primary for as long.
func TestGTIDStuckServerSessionIsEnded(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		config, _ := gtidBehindProxy(t, c)
		seen := record(&config)
		db := open(t, config)
		table := newGTIDWritable(t, c)
		for _, tc := range []struct {
			query string
			rows  int
			after float64
		}{
			{"INSERT INTO " + table + " (id) SELECT 1 + 0 * SLEEP(60)", 0, 1.5},
			{"CALL put_" + table + "(1, 1.5)", 1, 2},
		} {
			ctx := sessionContext(t)
			require.NoError(t, db.PingContext(ctx))
			short, cancel := context.WithTimeout(ctx, 300*time.Millisecond) // for the server to begin
			defer cancel()
			_, err := db.ExecContext(short, tc.query)
			require.ErrorIs(t, err, readroute.ErrCommitUnknown)
			began := time.Now()
			require.True(t, gtidUnderway(t, c.Primary(), table))
			eventually(t, "the server session is ended", func() bool {
				seen.take()
				rowsOf(t, ctx, db, table, 1)
				d := seen.one(t)
				over := !gtidUnderway(t, c.Primary(), table)
				if !over {
					require.Equal(t, readroute.RolePrimary, d.Role, "%+v", d)
				}
				return over
			})
			require.InDelta(t, tc.after, time.Since(began).Seconds(), 1, tc.query)
			eventually(t, "a replica serves the session", func() bool {
				seen.take()
				require.Equal(t, tc.rows, rowsOf(t, ctx, db, table, 1))
				return seen.one(t).Role == readroute.RoleReplica
			})
		}
	})
}

// TestGTIDKilledConnection: an administrator ends the connection while it waits for its answer.
func TestGTIDKilledConnection(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		config := gtidConfig(c, dbtest.AppUser)
		quick(&config)
		config.Primary.Connector = readroute.MySQL(c.Primary().AppDSN() + "?multiStatements=true")
		seen, happened := record(&config), listen(&config)
		db := open(t, config)
		table := newGTIDWritable(t, c)
		holdBack(t, c)
		for _, tc := range []struct {
			query string
			rows  int
		}{
			{"CALL put_%s(1, 30)", 0},
			{"INSERT INTO %s (id) SELECT 1 + 0 * SLEEP(30)", 0},
			{"CALL put_%[1]s(1, 0); CALL put_%[1]s(1, 30)", 1},
		} {
			ctx := sessionContext(t)
			result := make(chan error, 1)
			go func() {
				_, err := db.ExecContext(ctx, fmt.Sprintf(tc.query, table))
				result <- err
			}()
			var id string
			eventually(t, "it runs", func() bool {
				v, err := c.Primary().QueryValue(testContext(t), "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%SLEEP(%' AND STATE = 'User sleep'")
				id = v
				return err == nil
			})
			execOn(t, c.Primary(), "KILL CONNECTION "+id)
			err := <-result
			t.Log(err)
			require.ErrorIs(t, err, readroute.ErrCommitUnknown)
			require.NotErrorIs(t, err, driver.ErrBadConn)
			for range 20 {
				require.Equal(t, tc.rows, rowsOf(t, ctx, db, table, 1))
			}
		}
		for _, d := range seen.take() {
			require.Empty(t, d.Retry, "%+v", d)
		}
		require.Equal(t, "1", ask(t, c.Primary(), "SELECT COUNT(*) FROM "+table))
		require.Empty(t, happened.of(readroute.EventDown), "a connection is not its server")
	})
}

// TestK3_01_GTIDNoWriteRunsTwice: a network error in the middle of a statement is no reason to run it again.
func TestK3_01_GTIDNoWriteRunsTwice(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		config, proxy := gtidBehindProxy(t, c)
		db := open(t, config)
		table := newGTIDTable(t, c, "id INT PRIMARY KEY, n INT, note VARCHAR(40)")
		execOn(t, c.Primary(), "INSERT INTO "+table+" (id, n) VALUES (1, 0)")
		calls := map[dbtest.Verdict]int{}
		for i := range 40 {
			verdict := dbtest.CutAfter
			if i%4 == 3 {
				verdict = dbtest.CutBefore
			}
			calls[verdict]++
			proxy.OnClientData(dbtest.Once(needle, verdict))
			ctx := sessionContext(t)
			var err error
			if i%2 == 0 {
				_, err = db.ExecContext(ctx, "UPDATE "+table+" SET n = n + 1 /* "+needle+" */")
			} else {
				_, err = db.ExecContext(ctx, "UPDATE "+table+" SET n = n + 1, note = ?", needle)
			}
			require.ErrorIs(t, err, readroute.ErrCommitUnknown)
			var n int
			require.NoError(t, db.QueryRowContext(ctx, "SELECT n FROM "+table).Scan(&n))
			require.Equal(t, calls[dbtest.CutAfter], n)
		}
	})
}

// TestK2_19_K3_25_GTIDCancelledTxCommitsNothing cancels a statement of a transaction at any time. What its caller gets is the
// error of the context, and no node is taken for down because of it.
func TestK2_19_K3_25_GTIDCancelledTxCommitsNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster) {
		config := gtidConfig(c)
		happened := listen(&config)
		db := open(t, config)
		table := newGTIDTable(t, c, "id INT PRIMARY KEY, n INT")
		execOn(t, c.Primary(), "INSERT INTO "+table+" VALUES (1, 0)")
		committed := 0
		for i := range 300 {
			ctx, cancel := context.WithCancel(sessionContext(t))
			timer := time.AfterFunc(time.Duration(i)*7*time.Microsecond, cancel)
			err := func() error {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				defer func() { _ = tx.Rollback() }()
				for range 2 {
					if _, err := tx.ExecContext(ctx, "UPDATE "+table+" SET n = n + 1"); err != nil {
						if commit := tx.Commit(); commit == nil {
							return errors.New("a transaction of which a statement failed was committed")
						}
						return err
					}
				}
				return tx.Commit()
			}()
			timer.Stop()
			cancel()
			switch {
			case err == nil:
				committed++
			case errors.Is(err, readroute.ErrCommitUnknown):
				// Whether it stands is read below, once its server session is over.
				eventually(t, "the server session ends", func() bool { return !gtidUnderway(t, c.Primary(), table) })
				n := 0
				_, err := fmt.Sscan(ask(t, c.Primary(), "SELECT n FROM "+table), &n)
				require.NoError(t, err)
				require.Contains(t, []int{2 * committed, 2*committed + 2}, n)
				committed = n / 2
			default:
				require.True(t, errors.Is(err, context.Canceled) || errors.Is(err, sql.ErrTxDone), "%v", err)
			}
		}
		eventually(t, "all server sessions end", func() bool { return !gtidUnderway(t, c.Primary(), table) })
		require.Equal(t, fmt.Sprint(2*committed), ask(t, c.Primary(), "SELECT n FROM "+table))
		require.Empty(t, happened.of(readroute.EventDown))
	})
}
