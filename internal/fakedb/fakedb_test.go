package fakedb_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/fakedb"
)

// interfaces says which optional interfaces a value of a driver has.
func interfaces(v any) map[string]bool {
	is := map[string]bool{}
	_, is["Pinger"] = v.(driver.Pinger)
	_, is["ExecerContext"] = v.(driver.ExecerContext)
	_, is["QueryerContext"] = v.(driver.QueryerContext)
	_, is["ConnPrepareContext"] = v.(driver.ConnPrepareContext)
	_, is["ConnBeginTx"] = v.(driver.ConnBeginTx)
	_, is["SessionResetter"] = v.(driver.SessionResetter)
	_, is["Validator"] = v.(driver.Validator)
	_, is["NamedValueChecker"] = v.(driver.NamedValueChecker)
	_, is["ColumnConverter"] = v.(driver.ColumnConverter)
	_, is["StmtExecContext"] = v.(driver.StmtExecContext)
	_, is["StmtQueryContext"] = v.(driver.StmtQueryContext)
	_, is["RowsColumnTypeDatabaseTypeName"] = v.(driver.RowsColumnTypeDatabaseTypeName)
	_, is["RowsColumnTypeLength"] = v.(driver.RowsColumnTypeLength)
	_, is["RowsColumnTypeNullable"] = v.(driver.RowsColumnTypeNullable)
	_, is["RowsColumnTypePrecisionScale"] = v.(driver.RowsColumnTypePrecisionScale)
	_, is["RowsColumnTypeScanType"] = v.(driver.RowsColumnTypeScanType)
	_, is["RowsNextResultSet"] = v.(driver.RowsNextResultSet)
	return is
}

func TestNullHasTheInterfacesOfPgx(t *testing.T) {
	conn, err := fakedb.Null().Connect(t.Context())
	require.NoError(t, err)
	require.Equal(t, interfaces(&stdlib.Conn{}), interfaces(conn))
	stmt, err := conn.Prepare("SELECT 1")
	require.NoError(t, err)
	require.Equal(t, interfaces(&stdlib.Stmt{}), interfaces(stmt))
	rows, err := conn.(driver.QueryerContext).QueryContext(t.Context(), "SELECT 1", nil)
	require.NoError(t, err)
	require.Equal(t, interfaces(&stdlib.Rows{}), interfaces(rows))
}

func TestNullAllocatesNothing(t *testing.T) {
	conn, err := fakedb.Null().Connect(t.Context())
	require.NoError(t, err)
	c := conn.(interface {
		driver.QueryerContext
		driver.ExecerContext
	})
	ctx := context.Background()
	dest := make([]driver.Value, 1)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		rows, _ := c.QueryContext(ctx, "SELECT 1", nil)
		_ = rows.Next(dest)
		_ = rows.Close()
		_, _ = c.ExecContext(ctx, "UPDATE t SET n = 1", nil)
	}))
	require.Equal(t, int64(1), dest[0])
}

func TestNullAnswers(t *testing.T) {
	n := fakedb.Null()
	n.Answer = func(query string) ([]string, bool, error) { return []string{"a", "b"}, query == "who", nil }
	db := sql.OpenDB(n)
	var a, b string
	require.NoError(t, db.QueryRowContext(t.Context(), "who").Scan(&a, &b))
	require.Equal(t, "ab", a+b)
	var i int
	require.NoError(t, db.QueryRowContext(t.Context(), "what").Scan(&i))
	require.Equal(t, 1, i)
	require.Equal(t, 1, n.Open())
	require.NoError(t, db.Close())
	require.Zero(t, n.Open())
	require.Equal(t, 1, n.Opened())
}

func TestScriptHasTheInterfacesItChose(t *testing.T) {
	direct := []string{"Pinger", "ExecerContext", "QueryerContext", "ConnPrepareContext", "ConnBeginTx"}
	for bits := range 1 << 6 {
		on := func(bit int) bool { return bits&(1<<bit) != 0 }
		s := &fakedb.Script{
			Direct: on(0), Resetter: on(1), Validator: on(2), ConnChecker: on(3), StmtChecker: on(4), Converter: on(5),
		}
		conn, err := s.Connector().Connect(t.Context())
		require.NoError(t, err)
		want := interfaces(nil)
		for _, name := range direct {
			want[name] = s.Direct
		}
		want["SessionResetter"] = s.Resetter || s.Validator
		want["Validator"] = s.Validator
		want["NamedValueChecker"] = s.ConnChecker
		require.Equal(t, want, interfaces(conn), "%06b", bits)

		stmt, err := conn.Prepare("x")
		require.NoError(t, err)
		want = interfaces(nil)
		want["StmtExecContext"], want["StmtQueryContext"] = true, true
		want["NamedValueChecker"], want["ColumnConverter"] = s.StmtChecker, s.Converter
		require.Equal(t, want, interfaces(stmt), "%06b", bits)
	}
}

func TestScriptWritesDownWhatIsDone(t *testing.T) {
	s := &fakedb.Script{Direct: true, Resetter: true}
	s.Answer = func(query string) ([]string, bool, error) { return []string{"me"}, query == "who", nil }
	connector := s.Connector()
	asking, err := connector.Connect(t.Context())
	require.NoError(t, err)
	rows, err := asking.(driver.QueryerContext).QueryContext(t.Context(), "who", nil)
	require.NoError(t, err)
	require.NoError(t, rows.Close())

	db := sql.OpenDB(connector)
	_, err = db.ExecContext(t.Context(), "write", 1, "a")
	require.NoError(t, err)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.NoError(t, db.Close())
	require.Equal(t, []string{
		"1 connect", "1 exec write 1=int64(1) 2=string(a)", "1 reset", "1 begin", "1 commit", "1 close",
	}, s.Calls())
	require.Equal(t, 1, s.Count("exec"))
	require.Equal(t, 2, s.Opened())
}
