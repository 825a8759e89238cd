package readroute_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
)

// makeSlowCommit gives table a trigger that runs a line of PL/pgSQL at the commit of each transaction that adds a row.
func makeSlowCommit(t testing.TB, c *dbtest.PostgresCluster, table, line string) {
	t.Helper()
	require.NoError(t, c.Primary().Exec(testContext(t),
		fmt.Sprintf("CREATE FUNCTION commit_%s() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN %s; RETURN NULL; END$$", table, line),
		fmt.Sprintf("CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON %[1]s DEFERRABLE INITIALLY DEFERRED"+
			" FOR EACH ROW EXECUTE FUNCTION commit_%[1]s()", table)))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
}

// makeSlowWrite gives table a trigger that runs a line of PL/pgSQL before each row is added.
func makeSlowWrite(t testing.TB, c *dbtest.PostgresCluster, table, line string) {
	t.Helper()
	require.NoError(t, c.Primary().Exec(testContext(t),
		fmt.Sprintf("CREATE FUNCTION write_%s() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN %s; RETURN NEW; END$$", table, line),
		fmt.Sprintf("CREATE TRIGGER slow BEFORE INSERT OR UPDATE ON %[1]s FOR EACH ROW EXECUTE FUNCTION write_%[1]s()", table)))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
}
