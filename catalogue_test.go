package readroute_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// catalogued makes objects that only the catalogue can tell about, with names that begin with prefix.
func catalogued(t *testing.T, c *dbtest.PostgresCluster, prefix string) {
	t.Helper()
	for _, sql := range []string{
		`CREATE TABLE {p}t (id int)`,
		`CREATE FUNCTION {p}stable(int) RETURNS int LANGUAGE sql STABLE AS 'SELECT $1'`,
		`CREATE FUNCTION {p}volatile(int) RETURNS int LANGUAGE sql VOLATILE AS 'INSERT INTO {p}t VALUES ($1) RETURNING id'`,
		`CREATE FUNCTION {p}mixed(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1'`,
		`CREATE FUNCTION {p}mixed(text) RETURNS int LANGUAGE sql AS 'INSERT INTO {p}t VALUES (1) RETURNING id'`,
		`CREATE VIEW {p}plain AS SELECT upper('a') AS a`,
		`CREATE VIEW {p}over AS SELECT {p}volatile(1) AS a`,
		`CREATE VIEW {p}above AS SELECT a FROM {p}over`,
		`CREATE UNLOGGED TABLE {p}unlogged (id int)`,
		`CREATE SEQUENCE {p}seq`,
	} {
		require.NoError(t, c.Primary().Exec(testContext(t), strings.ReplaceAll(sql, "{p}", prefix)), sql)
	}
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
}

// class is what Explain says of a statement.
func class(t *testing.T, db *readroute.DB, sql string) readroute.Class {
	t.Helper()
	d, err := db.Explain(readroute.WithLevel(testContext(t), readroute.LevelEventual), sql)
	require.NoError(t, err, sql)
	return d.Class
}

func TestCatalogueTellsWhatNoTextDoes(t *testing.T) {
	c := sharedCluster(t)
	catalogued(t, c, "cat1_")
	config := configFor(c)
	quick(&config)
	db := open(t, config)

	for sql, read := range map[string]bool{
		"SELECT cat1_stable(1)":                true,
		`SELECT public."cat1_stable"(1)`:       true,
		"SELECT * FROM cat1_plain":             true,
		"SELECT * FROM cat1_t":                 true,
		"SELECT cat1_volatile(1)":              false,
		"SELECT cat1_mixed(1)":                 false, // not all overloads are harmless
		"SELECT * FROM cat1_over":              false,
		"SELECT * FROM cat1_above":             false,
		"TABLE public.cat1_above":              false,
		"SELECT * FROM cat1_unlogged":          false,
		"SELECT last_value FROM cat1_seq":      false,
		`SELECT last_value FROM "cat1_seq"`:    false,
		"SELECT cat1_stable(cat1_volatile(1))": false,
		"SELECT cat1_unheard_of(1)":            false,
	} {
		require.Equal(t, read, class(t, db, sql) == readroute.ClassRead, sql)
	}
	// And so it is when they run.
	for sql, role := range map[string]readroute.Role{
		"SELECT cat1_stable(1)": readroute.RoleReplica, "SELECT count(*) FROM cat1_above": readroute.RolePrimary,
		"SELECT count(*) FROM cat1_unlogged": readroute.RolePrimary,
	} {
		var d readroute.Decision
		ctx := readroute.WithLevel(testContext(t), readroute.LevelEventual)
		d, err := db.Explain(ctx, sql)
		require.NoError(t, err)
		require.Equal(t, role, d.Role, sql)
		var n int
		require.NoError(t, db.QueryRowContext(ctx, sql).Scan(&n), sql)
	}
}

func TestCatalogueSeesAShadowedBuiltIn(t *testing.T) {
	c := sharedCluster(t)
	primary := c.Primary()
	require.NoError(t, primary.Exec(testContext(t), `CREATE FUNCTION initcap(int) RETURNS text LANGUAGE sql AS $$SELECT 'x' || pg_backend_pid()$$`))
	t.Cleanup(func() { require.NoError(t, primary.Exec(testContext(t), "DROP FUNCTION initcap(int)")) })
	db := open(t, configFor(c))

	require.NotEqual(t, readroute.ClassRead, class(t, db, "SELECT initcap(1)"))
	require.Equal(t, readroute.ClassRead, class(t, db, "SELECT pg_catalog.initcap('a')"))
	require.Equal(t, readroute.ClassRead, class(t, db, "SELECT upper('a')"))
}

func TestCatalogueIsReadAgain(t *testing.T) {
	c := sharedCluster(t)
	catalogued(t, c, "cat2_")
	config := configFor(c)
	config.CatalogueInterval = 20 * time.Millisecond
	db := open(t, config)
	const call = "SELECT cat2_stable(1)"
	require.Equal(t, readroute.ClassRead, class(t, db, call))
	for range 3 {
		_, err := db.ExecContext(readroute.WithLevel(testContext(t), readroute.LevelEventual), call) // the answer is cached
		require.NoError(t, err)
	}

	run := func(sql string) { require.NoError(t, c.Primary().Exec(testContext(t), sql)) }
	run("ALTER FUNCTION cat2_stable(int) VOLATILE")
	eventually(t, "a volatile function is no read", func() bool { return class(t, db, call) != readroute.ClassRead })
	run("ALTER FUNCTION cat2_stable(int) IMMUTABLE")
	eventually(t, "it is one again", func() bool { return class(t, db, call) == readroute.ClassRead })
	run("DROP FUNCTION cat2_stable(int)")
	eventually(t, "nothing is known of what is not there", func() bool { return class(t, db, call) != readroute.ClassRead })
	run("CREATE OR REPLACE VIEW cat2_plain AS SELECT pg_backend_pid()::text AS a")
	eventually(t, "a view may change", func() bool { return class(t, db, "SELECT * FROM cat2_plain") != readroute.ClassRead })
}

func TestNegativeCatalogueIntervalReadsNothing(t *testing.T) {
	c := sharedCluster(t)
	catalogued(t, c, "cat3_")
	config := configFor(c)
	config.CatalogueInterval = -1
	config.ReadFunctions = []string{"cat3_volatile"}
	db := open(t, config)
	require.NotEqual(t, readroute.ClassRead, class(t, db, "SELECT cat3_stable(1)"))
	require.Equal(t, readroute.ClassRead, class(t, db, "SELECT cat3_volatile(1)"), "what the user says counts")
	require.Equal(t, readroute.ClassRead, class(t, db, "SELECT * FROM cat3_over"))
}

// failing opens connections until it is told to fail.
type failing struct {
	driver.Connector
	fail   atomic.Bool
	block  atomic.Bool
	opened atomic.Int64
}

var errNoCatalogue = errors.New("no connection for the catalogue")

func (f *failing) Connect(ctx context.Context) (driver.Conn, error) {
	switch {
	case f.fail.Load():
		return nil, errNoCatalogue
	case f.block.Load():
		<-ctx.Done()
		return nil, ctx.Err()
	}
	f.opened.Add(1)
	return f.Connector.Connect(ctx)
}

func TestCatalogueThatCannotBeReadIsAnEvent(t *testing.T) {
	c := sharedCluster(t)
	catalogued(t, c, "cat4_")
	config := configFor(c)
	config.CatalogueInterval = 10 * time.Millisecond
	connector := &failing{Connector: config.Primary.Connector}
	config.Primary.Connector = connector
	var mu sync.Mutex
	var failures []readroute.Event
	config.Hooks.Event = func(e readroute.Event) {
		if e.Kind == readroute.EventCatalogueFailed {
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, e)
		}
	}
	db := open(t, config)
	require.Equal(t, readroute.ClassRead, class(t, db, "SELECT cat4_stable(1)"))

	// The monitor has its connection already, so only new ones fail.
	connector.fail.Store(true)
	eventually(t, "the failure is reported", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(failures) > 1
	})
	mu.Lock()
	require.ErrorIs(t, failures[0].Err, errNoCatalogue)
	require.Equal(t, config.Primary.Name, failures[0].Node)
	mu.Unlock()
	require.Equal(t, readroute.ClassRead, class(t, db, "SELECT cat4_stable(1)"), "what was known stays")

	connector.fail.Store(false)
	require.NoError(t, c.Primary().Exec(testContext(t), "DROP FUNCTION cat4_stable(int)"))
	eventually(t, "it is read again", func() bool { return class(t, db, "SELECT cat4_stable(1)") != readroute.ClassRead })
}

// TestCatalogueBlocksNobody: neither Open, nor a statement, nor Close waits for a catalogue that does not answer.
func TestCatalogueBlocksNobody(t *testing.T) {
	c := sharedCluster(t)
	config := configFor(c)
	config.CatalogueInterval = 5 * time.Millisecond
	connector := &failing{Connector: config.Primary.Connector}
	config.Primary.Connector = connector
	db := open(t, config)
	conn, err := db.Conn(testContext(t)) // the primary's connection that is used below
	require.NoError(t, err)
	var n int
	require.NoError(t, conn.QueryRowContext(readroute.WithLevel(testContext(t), readroute.LevelPrimary), "SELECT 1").Scan(&n))
	require.NoError(t, conn.Close())

	connector.block.Store(true)
	opened := connector.opened.Load()
	for range 20 {
		require.NoError(t, db.QueryRowContext(readroute.WithLevel(testContext(t), readroute.LevelEventual), "SELECT 1").Scan(&n))
		require.NoError(t, db.QueryRowContext(readroute.WithLevel(testContext(t), readroute.LevelPrimary), "SELECT 1").Scan(&n))
	}
	require.Equal(t, opened, connector.opened.Load())
	begun := time.Now()
	require.NoError(t, db.Close())
	require.Less(t, time.Since(begun), 5*time.Second)
}

func TestClassStats(t *testing.T) {
	c := sharedCluster(t)
	catalogued(t, c, "cat5_")
	config := configFor(c)
	config.CatalogueInterval = -1 // so that a view over a write is sent to a replica
	db := open(t, config)
	ctx := readroute.WithLevel(testContext(t), readroute.LevelEventual)
	require.Zero(t, db.RouteStats().Classes)
	require.Zero(t, db.RouteStats().Classes.HitRate())

	var n int
	for range 10 {
		require.NoError(t, db.QueryRowContext(ctx, "SELECT count(*) FROM cat5_t").Scan(&n))
	}
	st := db.RouteStats().Classes
	require.EqualValues(t, 1, st.Entries)
	require.EqualValues(t, 2, st.Misses, "a text is kept from the second time on")
	require.EqualValues(t, 8, st.Hits)
	require.InDelta(t, 0.8, st.HitRate(), 1e-9)
	require.Positive(t, st.Bytes)

	for range 3 {
		require.NoError(t, db.QueryRowContext(ctx, "SELECT a FROM cat5_over").Scan(&n))
	}
	st = db.RouteStats().Classes
	require.EqualValues(t, 1, st.Learned, "a replica has refused it once")
	require.EqualValues(t, 1, st.LearnedEntries)
	require.EqualValues(t, 2, st.LearnedHits)
	require.Positive(t, st.LearnedBytes)
	require.LessOrEqual(t, st.LearnedBytes, int64(readroute.MaxLearnedBytes))
	require.LessOrEqual(t, st.Bytes, int64(readroute.MaxClassBytes))
}
