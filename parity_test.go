package readroute_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// parity is one run of a script on one pool. The script writes down everything that the pool lets it see; the bare pool
// and every routed one have to give the same record.
type parity struct {
	testing.TB
	ctx     context.Context
	db      *sql.DB
	routed  *readroute.DB // nil on the bare pool
	cluster *dbtest.PostgresCluster
	// application is the application_name of the pool's connections
	application string
	notices     *[]string // what servers have sent beside the results
	record      []string
}

// A parityScript is run on every kind of pool, in a schema of its own.
type parityScript struct {
	name      string
	configure func(*pgx.ConnConfig)
	options   []stdlib.OptionOpenDB // of the driver's connections to the primary
	// replica says that there is a read in it that a replica has to serve when it can.
	replica bool
	run     func(p *parity)
}

// The kinds of routed pools that are compared with the bare one.
const (
	parityPlain   = "NoSession" // everything on the primary
	parityCovered = "Covered"   // reads wait for a replica and run there
	parityPaused  = "Paused"    // reads wait in vain and run on the primary
)

// compareParity runs scripts on the bare pool and on each kind of routed pool.
func compareParity(t *testing.T, scripts ...parityScript) {
	t.Helper()
	c := sharedCluster(t)
	for _, s := range scripts {
		t.Run(s.name, func(t *testing.T) {
			want := runParity(t, c, s, "")
			require.NotEmpty(t, want, "the script shows nothing")
			for _, kind := range []string{parityPlain, parityCovered, parityPaused} {
				t.Run(kind, func(t *testing.T) {
					requireSameRecord(t, want, runParity(t, c, s, kind))
				})
			}
		})
	}
}

// requireSameRecord fails with the first difference and what led up to it: records are long.
func requireSameRecord(t *testing.T, want, got []string) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		if i < min(len(want), len(got)) && want[i] == got[i] {
			continue
		}
		const before, after = 5, 3
		around := func(record []string) string {
			return strings.Join(record[min(max(i-before, 0), len(record)):min(i+after, len(record))], "\n  ")
		}
		require.FailNowf(t, "not the same record", "line %d\nbare:\n  %s\nrouted:\n  %s", i+1, around(want), around(got))
	}
}

func runParity(t *testing.T, c *dbtest.PostgresCluster, s parityScript, kind string) []string {
	t.Helper()
	schema := fmt.Sprintf("parity%d", tables.Add(1))
	require.NoError(t, c.Primary().Exec(testContext(t), "CREATE SCHEMA "+schema, "CREATE TABLE "+schema+".begun (id int)"))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	var notices []string
	connConfig := func(n *dbtest.PostgresNode) *pgx.ConnConfig {
		config, err := pgx.ParseConfig(n.DSN())
		require.NoError(t, err)
		config.RuntimeParams["search_path"] = schema
		config.RuntimeParams["application_name"] = schema
		config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notices = append(notices, n.Severity+": "+n.Message) }
		if s.configure != nil {
			s.configure(config)
		}
		return config
	}
	p := &parity{TB: t, ctx: testContext(t), cluster: c, application: schema, notices: &notices}
	if kind == "" {
		p.db = sql.OpenDB(stdlib.GetConnector(*connConfig(c.Primary()), s.options...))
		p.db.SetMaxIdleConns(readroute.DefaultMaxIdleConns)
		t.Cleanup(func() { require.NoError(t, p.db.Close()) })
		s.run(p)
		return p.record
	}

	config := configFor(c)
	config.ProbeInterval = 10 * time.Millisecond
	config.Primary.Connector = readroute.PostgresConfig(connConfig(c.Primary()))
	if s.options != nil {
		config.Primary.Connector = stdlib.GetConnector(*connConfig(c.Primary()), s.options...)
	}
	for i, n := range standbys(c) {
		config.Replicas[i].Connector = readroute.PostgresConfig(connConfig(n))
	}
	wait := testTimeout
	if kind == parityPaused {
		wait = time.Millisecond
	}
	config.Strategy = readroute.PositionWait(wait)
	seen := record(&config)
	p.routed = open(t, config)
	p.db = p.routed.DB
	if kind == parityPaused {
		pauseReplay(t, c)
		defer resumeReplay(t, c)
	}
	if kind != parityPlain {
		p.ctx = sessionContext(t)
		_, err := p.db.ExecContext(p.ctx, "INSERT INTO begun VALUES (1)")
		require.NoError(t, err)
		_, err = readroute.SessionFrom(p.ctx).Token(p.ctx)
		require.NoError(t, err)
	}
	if kind == parityCovered {
		eventually(t, "a replica covers the session", func() bool {
			d, err := p.routed.Explain(p.ctx, "SELECT 1")
			return err == nil && d.Role == readroute.RoleReplica && !d.WouldWait
		})
	}
	s.run(p)
	onReplica := 0
	for _, d := range seen.take() {
		if d.Role == readroute.RoleReplica {
			onReplica++
		}
	}
	switch kind {
	case parityCovered:
		require.Equal(t, s.replica, onReplica > 0, "%d statements on replicas", onReplica)
	default:
		require.Zero(t, onReplica)
	}
	return p.record
}

// varying is what differs from run to run: addresses in memory, and the numbers of types that a script has made.
var varying = regexp.MustCompile(`\b0x[0-9a-f]{6,}\b|\b(OID )?[12][0-9]{4}(, scans|\))`)

// note adds a line to the record.
func (p *parity) note(format string, args ...any) {
	p.record = append(p.record, varying.ReplaceAllString(fmt.Sprintf(format, args...), "~"))
}

// must ends the run: what fails is the script's own scaffolding.
func (p *parity) must(err error) {
	p.Helper()
	require.NoError(p, err)
}

// exec runs a statement through q and notes what comes of it.
func (p *parity) exec(q execer, query string, args ...any) {
	result, err := q.ExecContext(p.ctx, query, args...)
	if err != nil {
		p.note("exec %s: %s", query, errorText(err))
		return
	}
	n, err := result.RowsAffected()
	_, idErr := result.LastInsertId()
	p.note("exec %s: %d rows, %s; last id: %s", query, n, errorText(err), errorText(idErr))
}

// query runs a query through q and notes columns, rows and errors.
func (p *parity) query(q execer, query string, args ...any) {
	rows, err := q.QueryContext(p.ctx, query, args...)
	if err != nil {
		p.note("query %s: %s", query, errorText(err))
		return
	}
	p.note("query %s", query)
	p.rows(rows)
}

// rows notes everything that rows have to say, and closes them.
func (p *parity) rows(rows *sql.Rows) {
	for set := 0; ; set++ {
		types, err := rows.ColumnTypes()
		p.note("  set %d: %d columns, %s", set, len(types), errorText(err))
		for _, c := range types {
			length, hasLength := c.Length()
			precision, scale, hasDecimal := c.DecimalSize()
			nullable, knowsNull := c.Nullable()
			p.note("  column %q: %s, scans %v, length %d %t, decimal %d.%d %t, nullable %t %t", c.Name(), c.DatabaseTypeName(),
				c.ScanType(), length, hasLength, precision, scale, hasDecimal, nullable, knowsNull)
		}
		for rows.Next() {
			values, dest := make([]any, len(types)), make([]any, len(types))
			for i := range values {
				dest[i] = &values[i]
			}
			err := rows.Scan(dest...)
			p.note("  row %s %s", valueText(values...), errorText(err))
		}
		p.note("  end: %s", errorText(rows.Err()))
		if !rows.NextResultSet() {
			break
		}
	}
	p.note("  close: %s, then %s", errorText(rows.Close()), errorText(rows.Err()))
}

// execer is any of *sql.DB, *sql.Conn and *sql.Tx, or a statement in preparedQuery.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// preparing prepares every text it is given.
type preparing struct {
	on interface {
		PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	}
}

func (p preparing) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	stmt, err := p.on.PrepareContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	defer stmt.Close()
	return stmt.ExecContext(ctx, args...)
}

func (p preparing) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := p.on.PrepareContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	defer stmt.Close() // while its rows are open
	return stmt.QueryContext(ctx, args...)
}

// errorText shows an error as a caller can see it: its text, its type, and what it matches.
func errorText(err error) string {
	if err == nil {
		return "ok"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%T %q", err, err)
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		fmt.Fprintf(&b, " {%s %s %q %q %q %d %s.%s.%s %s}", pg.Severity, pg.Code, pg.Message, pg.Detail, pg.Hint, pg.Position,
			pg.TableName, pg.ColumnName, pg.DataTypeName, pg.ConstraintName)
	}
	for _, known := range []error{
		context.Canceled, context.DeadlineExceeded, sql.ErrNoRows, sql.ErrTxDone, sql.ErrConnDone, driver.ErrBadConn,
		driver.ErrSkip, pgx.ErrTxCommitRollback, readroute.ErrCommitUnknown,
	} {
		if errors.Is(err, known) {
			fmt.Fprintf(&b, " is(%v)", known)
		}
	}
	return b.String()
}

// valueText shows values with their types.
func valueText(values ...any) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		switch v := v.(type) {
		case []byte:
			fmt.Fprintf(&b, "%T(%q)", v, v)
		case time.Time:
			fmt.Fprintf(&b, "%T(%s)", v, v.Format(time.RFC3339Nano))
		default:
			fmt.Fprintf(&b, "%T(%v)", v, v)
		}
	}
	return b.String()
}

// nativeConn is the pgx connection behind what Raw hands out, on either pool.
func nativeConn(ctx context.Context, driverConn any) (*pgx.Conn, error) {
	if c, ok := driverConn.(readroute.Conn); ok {
		var err error
		if driverConn, err = c.Primary(ctx); err != nil {
			return nil, err
		}
	}
	c, ok := driverConn.(*stdlib.Conn)
	if !ok {
		return nil, fmt.Errorf("%T is no pgx connection", driverConn)
	}
	return c.Conn(), nil
}

// raw calls f with the pgx connection of conn.
func (p *parity) raw(conn *sql.Conn, f func(*pgx.Conn) error) error {
	return conn.Raw(func(driverConn any) error {
		c, err := nativeConn(p.ctx, driverConn)
		if err != nil {
			return err
		}
		return f(c)
	})
}
