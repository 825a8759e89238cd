package mysql_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	native "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/mysql"
)

func TestErrors(t *testing.T) {
	e := mysql.Engine{}
	said := func(number uint16, text string) error {
		return fmt.Errorf("query: %w", &native.MySQLError{Number: number, Message: text})
	}
	const running = "The MySQL server is running with the %s option so it cannot execute this statement"
	for _, c := range []struct {
		err                              error
		refused, down, readOnly, notSent bool
		retry                            core.Retry
	}{
		{err: said(1290, fmt.Sprintf(running, "--read-only")), refused: true, readOnly: true, retry: core.RetryRefused},
		{err: said(1290, fmt.Sprintf(running, "--super-read-only")), refused: true, readOnly: true, retry: core.RetryRefused},
		{err: said(1290, "Der MariaDB-Server läuft mit der Option --read-only und kann diese Anweisung deswegen nicht ausführen"), refused: true, readOnly: true, retry: core.RetryRefused},
		{err: said(1290, fmt.Sprintf(running, "read_only")), refused: true, readOnly: true, retry: core.RetryRefused},
		{err: said(1290, fmt.Sprintf(running, "--secure-file-priv")), refused: true},
		{err: said(1290, fmt.Sprintf(running, "--skip-grant-tables")), refused: true},
		{err: said(1792, "Cannot execute statement in a READ ONLY transaction."), refused: true, readOnly: true, retry: core.RetryRefused},
		{err: said(1836, "Running in read-only mode"), refused: true, readOnly: true, retry: core.RetryRefused},
		{err: said(1874, "InnoDB is in read only mode."), refused: true, readOnly: true, retry: core.RetryRefused},
		{err: said(1146, ""), refused: true, retry: core.RetrySchema},
		{err: said(1054, ""), refused: true, retry: core.RetrySchema},
		{err: said(1305, ""), refused: true, retry: core.RetrySchema},
		{err: said(1049, ""), refused: true, retry: core.RetrySchema},
		{err: said(1615, ""), refused: true, retry: core.RetryPlan},
		{err: said(1412, ""), refused: true, retry: core.RetryConflict},
		{err: said(1213, "Deadlock found"), refused: true},
		{err: said(1205, "Lock wait timeout"), refused: true},
		{err: said(1062, "Duplicate entry"), refused: true},
		{err: said(1064, "You have an error"), refused: true},
		{err: said(1317, "Query execution was interrupted"), refused: true},
		{err: said(3024, "maximum statement execution time exceeded"), refused: true},
		{err: said(1040, "Too many connections"), refused: true, retry: core.RetryConnection},
		{err: said(1045, "Access denied"), refused: true},
		{err: said(1053, "Server shutdown in progress"), down: true, retry: core.RetryConnection},
		{err: said(3032, "The server is currently in offline mode"), down: true, retry: core.RetryConnection},
		{err: said(1927, "Connection was killed"), down: true, retry: core.RetryConnection},
		{err: said(4031, "disconnected by the server because of inactivity"), down: true, retry: core.RetryConnection},
		{err: said(2013, "Lost connection"), down: true, retry: core.RetryConnection},
		{err: said(2006, "gone away"), down: true, retry: core.RetryConnection},
		{err: said(1180, "Got error 5 during COMMIT"), down: true, retry: core.RetryConnection},
		{err: native.ErrInvalidConn, down: true, retry: core.RetryConnection},
		{err: io.ErrUnexpectedEOF, down: true, retry: core.RetryConnection},
		{err: driver.ErrBadConn, down: true, notSent: true, retry: core.RetryConnection},
		{err: native.ErrPktTooLarge, down: true, notSent: true},
		{err: &net.OpError{Op: "dial", Err: errors.New("refused")}, down: true, notSent: true, retry: core.RetryConnection},
		{err: &net.OpError{Op: "read", Err: errors.New("reset")}, down: true, retry: core.RetryConnection},
		{err: native.ErrNoTLS},
		{err: native.ErrNativePassword},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			require.Equal(t, c.refused, e.Refused(c.err), "refused")
			require.Equal(t, c.down, e.Down(c.err), "down")
			require.Equal(t, c.readOnly, e.ReadOnly(c.err), "read-only")
			require.Equal(t, c.notSent, e.NotSent(c.err), "not sent")
			require.Equal(t, c.retry, e.Retry(c.err), "retry")
		})
	}
}

// The servers' own answers.
func TestErrorsOfServers(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		l := link(t, c.Replica(0).AppDSN())
		for statement, want := range map[string]core.Retry{
			"INSERT INTO t (v) VALUES (1)":       core.RetryRefused,
			"CREATE TABLE u (id INT)":            core.RetryRefused,
			"SELECT * FROM t FOR UPDATE":         core.RetryRefused,
			"SELECT * FROM nowhere":              core.RetrySchema,
			"SELECT nothing FROM t":              core.RetrySchema,
			"SELECT nosuch(1)":                   core.RetrySchema,
			"SELECT app.nosuch(1)":               core.RetrySchema,
			"SELECT 1 FROM t USE INDEX (nosuch)": core.RetrySchema,
			"SELECT * FROM":                      core.RetryNone,
			"SELECT (SELECT 1 UNION SELECT 2)":   core.RetryNone,
		} {
			_, err := l.QueryRow(testContext(t), statement)
			require.Error(t, err, statement)
			require.Equal(t, want, e.Retry(err), "%s: %v", statement, err)
			require.Equal(t, want == core.RetryRefused, e.ReadOnly(err), "%s: %v", statement, err)
			require.True(t, e.Refused(err), "%s: %v", statement, err)
			require.False(t, e.NotSent(err), "%s: %v", statement, err)
		}
		_, err := link(t, c.Replica(0).DSN()).QueryRow(testContext(t), "USE nosuch")
		require.Equal(t, core.RetrySchema, e.Retry(err), "%v", err)

		// A server that is up and does not want this user is not down.
		for _, dsn := range []string{"nobody@tcp(" + c.Primary().Addr() + ")/app", "app@tcp(" + c.Primary().Addr() + ")/nosuch"} {
			config, err := native.ParseDSN(dsn)
			require.NoError(t, err)
			config.Logger = silent{}
			_, err = mysql.OpenConfig(config).Connect(testContext(t))
			require.Error(t, err)
			require.False(t, e.Down(err), "%v", err)
		}

		// What was killed in the middle has an outcome that is not known.
		conn := quiet(t, c.Primary().AppDSN())
		id, err := e.Wire(conn).Link().QueryRow(testContext(t), "SELECT CONNECTION_ID()")
		require.NoError(t, err)
		done, watch := make(chan error, 1), link(t, c.Primary().AppDSN())
		go func() {
			_, err := e.Wire(conn).Link().QueryRow(context.Background(), "INSERT INTO t (v) SELECT SLEEP(20)")
			done <- err
		}()
		eventually(t, "it runs", func() bool {
			row := query(t, watch, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'INSERT%SLEEP(20)'")
			return row[0] == "1"
		})
		exec(t, c.Primary(), "KILL "+id[0])
		err = <-done
		require.Error(t, err)
		require.False(t, e.NotSent(err), "%v", err)
		t.Logf("killed while it ran: %v", err)
	})
}
