package readroute_test

import (
	"context"
	"database/sql/driver"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestRefuseSettingsThatFight: one error from Open that names the option and says why; no password in it.
func TestRefuseSettingsThatFight(t *testing.T) {
	const fine = "postgres://app:secret@db-a/app"
	for name, c := range map[string]struct {
		primary, replica string
		want             []string // parts of the error; none: Open succeeds
	}{
		"nothing":                   {fine, fine, nil},
		"the same host without TLS": {fine + "?sslmode=prefer", fine, nil},
		"any server":                {fine + "?target_session_attrs=any", fine, nil},
		"several hosts":             {"postgres://app:secret@db-a,db-b/app", fine, []string{"several hosts", `"a"`}},
		"several ports":             {fine, "postgres://app:secret@db-b:5432,db-b:5433/app", []string{"several hosts", `"b"`}},
		"several hosts, keywords":   {"host=db-a,db-b user=app password=secret", fine, []string{"several hosts"}},
		"read-write":                {fine + "?target_session_attrs=read-write", fine, []string{"target_session_attrs", `"a"`}},
		"primary":                   {fine + "?target_session_attrs=primary", fine, []string{"target_session_attrs"}},
		"read-only":                 {fine, fine + "?target_session_attrs=read-only", []string{"target_session_attrs", `"b"`}},
		"standby":                   {fine, fine + "?target_session_attrs=standby", []string{"target_session_attrs"}},
		"prefer-standby":            {fine, fine + "?target_session_attrs=prefer-standby", []string{"target_session_attrs"}},
		"both": {
			"postgres://app:secret@db-a,db-b/app?target_session_attrs=primary", fine,
			[]string{"several hosts", "target_session_attrs"},
		},
		"read-only transactions":                 {fine + "?default_transaction_read_only=on", fine, []string{"default_transaction_read_only", `"a"`}},
		"read-only transactions, keywords":       {"host=db-a default_transaction_read_only=true", fine, []string{"default_transaction_read_only"}},
		"read-only transactions by options":      {fine + "?options=-c%20default_transaction_read_only%3Don", fine, []string{"default_transaction_read_only"}},
		"read-only transactions, off":            {fine + "?default_transaction_read_only=off", fine, nil},
		"read-only transactions, false":          {fine + "?default_transaction_read_only=FALSE", fine, nil},
		"read-only transactions, 0":              {fine + "?default_transaction_read_only=0", fine, nil},
		"read-only transactions, capitals":       {fine + "?DEFAULT_TRANSACTION_READ_ONLY=on", fine, []string{"default_transaction_read_only"}},
		"read-only transactions, off by options": {fine + "?options=-c%20default_transaction_read_only%3Doff", fine, nil},
		"read-only transactions, long option":    {fine + "?options=--default-transaction-read-only%3Don", fine, []string{"default_transaction_read_only"}},
		"read-only transactions, on at last": {
			fine + "?options=-c%20default_transaction_read_only%3Doff%20-c%20DEFAULT_transaction_read_only%3Dyes", fine,
			[]string{"default_transaction_read_only"},
		},
		"a replica that is read-only by options": {fine, fine + "?options=-c%20default_transaction_read_only%3Don", []string{`"b"`}},
		"read-only replica":                      {fine, fine + "?default_transaction_read_only=on", nil},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := readroute.Open(readroute.Config{
				Primary:  readroute.Node{Name: "a", Connector: readroute.Postgres(c.primary)},
				Replicas: []readroute.Node{{Name: "b", Connector: readroute.Postgres(c.replica)}},
			})
			if len(c.want) == 0 {
				require.NoError(t, err)
				require.NoError(t, db.Close())
				return
			}
			require.ErrorIs(t, err, readroute.ErrBadConfig)
			for _, part := range c.want {
				require.ErrorContains(t, err, part)
			}
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

// TestRefuseConfigThatPgxDidNotMake: pgx panics for it, on whichever goroutine connects first.
func TestRefuseConfigThatPgxDidNotMake(t *testing.T) {
	_, err := readroute.Open(readroute.Config{Primary: readroute.Node{Name: "a", Connector: readroute.PostgresConfig(new(pgx.ConnConfig))}})
	require.ErrorIs(t, err, readroute.ErrBadConfig)
	require.ErrorContains(t, err, "ParseConfig")
}

// TestRefuseMySQLOptions: what hides from the library what it has to see is refused by name, and a connector whose options nobody can see.
func TestRefuseMySQLOptions(t *testing.T) {
	config, err := mysql.ParseDSN("app:secret@tcp(db-a)/app")
	require.NoError(t, err)
	native, err := mysql.NewConnector(config)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		connector driver.Connector
		want      string
	}{
		"rejectReadOnly":             {readroute.MySQL("app:secret@tcp(db-a)/app?rejectReadOnly=true"), "rejectReadOnly"},
		"autocommit":                 {readroute.MySQL("app:secret@tcp(db-a)/app?autocommit=0"), "autocommit off"},
		"completion_type":            {readroute.MySQL("app:secret@tcp(db-a)/app?completion_type=%27CHAIN%27"), "completion_type"},
		"sql_log_bin":                {readroute.MySQL("app:secret@tcp(db-a)/app?sql_log_bin=0"), "sql_log_bin off"},
		"transaction_read_only":      {readroute.MySQL("app:secret@tcp(db-a)/app?transaction_read_only=1"), "transaction_read_only"},
		"the driver's own connector": {native, "MySQLConfig"},
		"no config":                  {readroute.MySQLConfig(nil), "nil"},
		"no DSN":                     {readroute.MySQL("app:secret"), "DSN cannot be parsed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readroute.Open(readroute.Config{Primary: readroute.Node{Name: "a", Connector: tc.connector}})
			require.ErrorIs(t, err, readroute.ErrBadConfig)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
	_, err = readroute.Open(readroute.Config{
		Primary:  readroute.Node{Name: "a", Connector: readroute.MySQLConfig(config)},
		Replicas: []readroute.Node{{Name: "b", Connector: readroute.Postgres("postgres://app@db-b/app")}},
	})
	require.ErrorContains(t, err, "cannot mix")
}

// TestRefuseNoReplicaThatIsReadOnlyByItself: a replica whose config makes sessions read-only takes writes all the same once it
// is the primary.
func TestRefuseNoReplicaThatIsReadOnlyByItself(t *testing.T) {
	c := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1})
	config := failoverConfig(c)
	config.Replicas[0].Connector = readroute.Postgres(c.Standby(0).DSN() + "&default_transaction_read_only=on")
	db := open(t, config)
	require.NoError(t, c.Primary().Exec(testContext(t), "CREATE TABLE t (id int)"))
	require.NoError(t, c.WaitCaughtUp(testContext(t)))
	require.NoError(t, c.Primary().Kill(testContext(t)))
	require.NoError(t, c.Standby(0).Promote(testContext(t)))
	eventually(t, "the promoted node takes writes", func() bool {
		_, err := db.ExecContext(sessionContext(t), "INSERT INTO t VALUES (1)")
		return err == nil
	})
}

// TestRefuseOnlyWarnsOfWhatTheServerSays: settings that fight and that only the server knows are told to the hook, once.
func TestRefuseOnlyWarnsOfWhatTheServerSays(t *testing.T) {
	c := sharedCluster(t)
	for name, tc := range map[string]struct {
		change func(*readroute.Config)
		node   int // 0: the primary
		want   string
	}{
		"statement_timeout on the primary": {func(config *readroute.Config) {
			config.Primary.Connector = readroute.Postgres(c.Primary().DSN() + "&statement_timeout=50")
		}, 0, "statement_timeout is 50 ms"},
		"statement_timeout on a replica": {func(config *readroute.Config) {
			config.Replicas[0].Connector = readroute.Postgres(standbys(c)[0].DSN() + "&statement_timeout=99ms")
		}, 1, "statement_timeout is 99 ms"},
		"a fallback limit that takes the whole pool": {func(config *readroute.Config) {
			config.Primary.MaxOpenConns, config.FallbackLimit = 10, 10
		}, 0, "FallbackLimit is 10"},
		"more connections than the server allows": {func(config *readroute.Config) {
			config.Replicas[0].MaxOpenConns = 5000
		}, 1, "may open 5000"},
	} {
		t.Run(name, func(t *testing.T) {
			config := configFor(c)
			happened := listen(&config)
			tc.change(&config)
			db := open(t, config)
			require.NoError(t, db.QueryRowContext(sessionContext(t), "SELECT 1").Scan(new(int)))
			var list []readroute.Event
			eventually(t, "the warning", func() bool {
				list = happened.of(readroute.EventSetting)
				return len(list) > 0
			})
			require.Len(t, list, 1)
			require.Contains(t, list[0].Why, tc.want)
			require.Equal(t, c.Nodes()[tc.node].Name(), list[0].Node)
		})
	}

	t.Run("nothing to warn of", func(t *testing.T) {
		config := configFor(c)
		happened := listen(&config)
		config.Primary.Connector = readroute.Postgres(c.Primary().DSN() + "&statement_timeout=100")
		config.Primary.MaxOpenConns = 20
		db := open(t, config)
		require.NoError(t, db.QueryRowContext(sessionContext(t), "SELECT 1").Scan(new(int)))
		require.Empty(t, happened.of(readroute.EventSetting))
	})

	t.Run("a role that is read-only, and one with few connections", func(t *testing.T) {
		require.NoError(t, c.Primary().Exec(testContext(t),
			"CREATE ROLE timid LOGIN CONNECTION LIMIT 2", "ALTER ROLE timid SET default_transaction_read_only = on"))
		t.Cleanup(func() { require.NoError(t, c.Primary().Exec(context.Background(), "DROP ROLE timid")) })
		require.NoError(t, c.WaitCaughtUp(testContext(t)))
		config := configFor(c)
		happened := listen(&config)
		config.Primary.Connector = readroute.Postgres(strings.Replace(c.Primary().DSN(), "postgres@", "timid@", 1))
		db := open(t, config)
		require.NoError(t, db.QueryRowContext(sessionContext(t), "SELECT 1").Scan(new(int)))
		eventually(t, "two settings are told of", func() bool { return len(happened.of(readroute.EventSetting)) >= 2 })
		list := happened.of(readroute.EventSetting)
		require.Len(t, list, 2)
		require.Contains(t, list[0].Why, "default_transaction_read_only is on")
		require.Contains(t, list[1].Why, "2 connections")
	})
}

// TestPostgresConfigAsksForAPasswordOnEveryDial: credentials that rotate.
func TestPostgresConfigAsksForAPasswordOnEveryDial(t *testing.T) {
	c := sharedCluster(t)
	var dials atomic.Int64
	connector := func(n *dbtest.PostgresNode) readroute.Node {
		pg, err := pgx.ParseConfig(n.DSN("nobody_knows"))
		require.NoError(t, err)
		return readroute.Node{Name: n.Name(), Connector: readroute.PostgresConfig(pg, stdlib.OptionBeforeConnect(
			func(_ context.Context, config *pgx.ConnConfig) error {
				dials.Add(1)
				config.User = dbtest.AppUser // the test's server asks for no password; a user is as good
				return nil
			}))}
	}
	for _, pooled := range []bool{false, true} {
		config := readroute.Config{Primary: connector(c.Primary()), Replicas: []readroute.Node{connector(standbys(c)[0])}}
		config.Primary.Pooled, config.Replicas[0].Pooled = pooled, pooled
		config.Primary.ConnMaxLifetime = time.Nanosecond
		db := open(t, config)
		require.NoError(t, db.PingContext(testContext(t)))
		before := dials.Load()
		for range 5 {
			var user string
			require.NoError(t, db.QueryRowContext(testContext(t), "SELECT current_user").Scan(&user))
			require.Equal(t, dbtest.AppUser, user)
		}
		require.GreaterOrEqual(t, dials.Load(), before+4, "one for each connection")
		require.NoError(t, db.QueryRowContext(sessionContext(t), "SELECT 1").Scan(new(int)))
	}
}
