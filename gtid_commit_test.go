package readroute_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// What a transaction has committed on its way stays when it is rolled back. Nothing in a CALL says that it commits.
func TestWhatATransactionHasCommittedOnItsWayIsAWrite(t *testing.T) {
	for _, mariadb := range []bool{true, false} {
		start := dbtest.StartMySQLT
		if mariadb {
			start = dbtest.StartMariaDBT
		}
		t.Run(map[bool]string{true: "MariaDB", false: "MySQL"}[mariadb], func(t *testing.T) {
			c := start(t, dbtest.MySQLOptions{Replicas: 1})
			replica := c.Replica(0)
			require.NoError(t, c.Primary().Exec(t.Context(), "CREATE TABLE kept (v int)", "CREATE TABLE plain (v int) ENGINE=MyISAM",
				"CREATE PROCEDURE commits() BEGIN INSERT INTO kept VALUES (1); COMMIT; END",
				"CREATE PROCEDURE fails() BEGIN INSERT INTO kept VALUES (1); COMMIT; SIGNAL SQLSTATE '45000'; END",
				"CREATE PROCEDURE answers() BEGIN SELECT 1; INSERT INTO kept VALUES (1); COMMIT; END"))
			rr, err := readroute.Open(readroute.Config{
				Primary:  readroute.Node{Name: "a", Connector: readroute.MySQL(c.Primary().DSN())},
				Replicas: []readroute.Node{{Name: "b", Connector: readroute.MySQL(replica.DSN())}},
				Strategy: readroute.PositionWait(10 * time.Millisecond),
			})
			require.NoError(t, err)
			defer rr.Close()

			execs := func(text string) func(*testing.T, context.Context, *sql.Tx) {
				return func(t *testing.T, ctx context.Context, tx *sql.Tx) {
					_, err := tx.ExecContext(ctx, text)
					require.NoError(t, err)
				}
			}
			tests := map[string]func(*testing.T, context.Context, *sql.Tx){
				"Call":    execs("CALL commits()"),
				"Execute": execs("PREPARE p FROM 'CREATE TABLE IF NOT EXISTS kept (v int)'"),
				"Fails": func(t *testing.T, ctx context.Context, tx *sql.Tx) {
					_, err := tx.ExecContext(ctx, "CALL fails()")
					var answer *mysql.MySQLError
					require.ErrorAs(t, err, &answer)
				},
				"Answers": func(t *testing.T, ctx context.Context, tx *sql.Tx) {
					rows, err := tx.QueryContext(ctx, "CALL answers()")
					require.NoError(t, err)
					defer rows.Close()
					for rows.Next() || rows.NextResultSet() { //nolint:revive // to the end
					}
					require.NoError(t, rows.Err())
				},
			}
			call := tests["Execute"]
			tests["Execute"] = func(t *testing.T, ctx context.Context, tx *sql.Tx) {
				execs("INSERT INTO kept VALUES (1)")(t, ctx, tx)
				call(t, ctx, tx)
				execs("EXECUTE p")(t, ctx, tx)
			}
			// Tables without transactions keep their rows, and a deadlock ends a transaction that database/sql thinks is open.
			tests["Rolled back, of a table without transactions"] = execs("INSERT INTO plain VALUES (1)")
			visible := map[string]string{"Rolled back, of a table without transactions": "SELECT COUNT(*) FROM plain"}
			tests["Scope before autocommit"] = func(t *testing.T, ctx context.Context, _ *sql.Tx) {
				conn, err := rr.Conn(ctx)
				require.NoError(t, err)
				defer conn.Close()
				for _, text := range []string{"SET SESSION autocommit = 0", "INSERT INTO kept VALUES (1)", "", "SET @@session.`autocommit` = 1"} {
					if text == "" {
						_, err = readroute.SessionFrom(ctx).Token(ctx) // captured before it is committed
					} else {
						_, err = conn.ExecContext(ctx, text)
					}
					require.NoError(t, err)
				}
			}
			if mariadb {
				tests["Immediate"] = execs("EXECUTE IMMEDIATE 'CALL commits()'")
				tests["Block"] = execs("BEGIN NOT ATOMIC INSERT INTO kept VALUES (1); COMMIT; END")
			}
			for name, run := range tests {
				t.Run(name, func(t *testing.T) {
					require.NoError(t, c.Primary().Exec(t.Context(), "DELETE FROM kept"))
					require.NoError(t, c.WaitCaughtUp(t.Context()))
					require.NoError(t, rr.WaitReady(t.Context()))
					require.NoError(t, replica.PauseReplay(t.Context()))
					defer func() { require.NoError(t, replica.ResumeReplay(context.WithoutCancel(t.Context()))) }()

					ctx := readroute.WithSession(t.Context())
					tx, err := rr.BeginTx(ctx, nil)
					require.NoError(t, err)
					run(t, ctx, tx)
					require.NoError(t, tx.Rollback())
					var n int
					require.NoError(t, rr.QueryRowContext(ctx, cmp.Or(visible[name], "SELECT COUNT(*) FROM kept")).Scan(&n))
					require.Equal(t, 1, n)
				})
			}
		})
	}
}

// A COMMIT on a connection that is gone was not sent, and what was not committed is not there: the outcome is known, and the
// error the driver's own.
func TestCommitOnAConnectionThatIsGoneIsNoUnknownOutcome(t *testing.T) {
	c := dbtest.StartMariaDBT(t, dbtest.MySQLOptions{})
	require.NoError(t, c.Primary().Exec(t.Context(), "CREATE TABLE gone (v int)"))
	rr, err := readroute.Open(readroute.Config{Primary: readroute.Node{Name: "a", Connector: readroute.MySQL(c.Primary().DSN())}})
	require.NoError(t, err)
	defer rr.Close()
	config, err := mysql.ParseDSN(c.Primary().DSN())
	require.NoError(t, err)
	config.Logger = quiet{}
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
	bare := sql.OpenDB(connector)
	defer bare.Close()

	for name, db := range map[string]*sql.DB{"bare": bare, "routed": rr.DB} {
		t.Run(name, func(t *testing.T) {
			tx, err := db.BeginTx(readroute.WithSession(t.Context()), nil)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err = tx.ExecContext(ctx, "INSERT INTO gone VALUES (SLEEP(0.2))")
			require.Equal(t, context.DeadlineExceeded, err)
			require.Equal(t, context.DeadlineExceeded, tx.Commit())
		})
	}
}

// A caller whose context ends while a connection is opened for it is told so in the words of its context, as database/sql
// does, whatever the library was asking the server then.
func TestAContextThatEndsWhileItsConnectionIsOpenedIsToldAsItIs(t *testing.T) {
	c := dbtest.StartMariaDBT(t, dbtest.MySQLOptions{})
	rr, err := readroute.Open(readroute.Config{
		Primary: readroute.Node{Name: "a", Connector: readroute.MySQL(c.Primary().DSN()), ConnMaxLifetime: 1},
	})
	require.NoError(t, err)
	defer rr.Close()
	require.NoError(t, rr.WaitReady(t.Context()))

	ended := 0
	for i := range 600 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%300)*10*time.Microsecond)
		err := rr.PingContext(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			ended++
			var dialling *net.OpError
			if !errors.As(err, &dialling) { // which is the driver's word for it
				require.Equal(t, context.DeadlineExceeded, err)
			}
		}
	}
	require.NotZero(t, ended)
}

type quiet struct{}

func (quiet) Print(...any) {}
