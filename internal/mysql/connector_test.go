package mysql_test

import (
	"context"
	"testing"

	native "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/mysql"
)

func TestRefuseOptions(t *testing.T) {
	for options, want := range map[string]string{
		"rejectReadOnly=true":                           "rejectReadOnly",
		"autocommit=0":                                  "autocommit",
		"autocommit=false":                              "autocommit",
		"`autocommit`=OFF":                              "autocommit",
		"@@session.sql_log_bin=0":                       "sql_log_bin",
		"completion_type=1":                             "completion_type",
		"completion_type=0":                             "",
		"autocommit=1&multiStatements=true":             "",
		"parseTime=true&interpolateParams=true&loc=UTC": "",
		"allowAllFiles=true&clientFoundRows=true&transaction_isolation=%27READ-COMMITTED%27": "",
	} {
		c := mysql.Open("app:secret@tcp(127.0.0.1:3306)/app?" + options)
		err := c.ConfigError()
		if want == "" {
			require.NoError(t, err, options)
			continue
		}
		require.ErrorContains(t, err, want, options)
		require.NotContains(t, err.Error(), "secret")
		_, connectErr := c.Connect(t.Context())
		require.Equal(t, err, connectErr)
	}
	err := mysql.Open("/?rejectReadOnly=1&autocommit=0").ConfigError()
	require.ErrorContains(t, err, "rejectReadOnly")
	require.ErrorContains(t, err, "autocommit")
	require.ErrorContains(t, mysql.OpenConfig(nil).ConfigError(), "nil")
}

// What is wrong with a data source name is said without its text, wherever a password may have got to.
func TestRefuseBadDSNWithoutItsText(t *testing.T) {
	for _, dsn := range []string{
		"app:secret@tcp(127.0.0.1:3306)", "app:secret@tcp(127.0.0.1:3306/app", "app:secret@tcp(127.0.0.1:3306)x/app",
		"app:secret@secret/app", "secret:secret/secret", "secret", "app:p@tcp(h)/%zzsecret", "app:p@tcp(h)/a?parseTime=secret",
		"app:p@tcp(h)/a?loc=secret", "app:p@tcp(h)/a?timeout=secret", "app:p@tcp(h)/a?tls=secret", "app:p@tcp(h)/a?x=%zzsecret",
		"app:p@tcp(h)/a?maxAllowedPacket=secret", "app:p@tcp(h)/a?serverPubKey=secret", "app:p@tcp(h)/a?compress=secret",
	} {
		c := mysql.Open(dsn)
		err := c.ConfigError()
		require.ErrorContains(t, err, "the MySQL DSN cannot be parsed", dsn)
		require.NotContains(t, err.Error(), "secret", dsn)
		_, err = c.Connect(t.Context())
		require.NotContains(t, err.Error(), "secret", dsn)
	}
}

// A session that the user's own options make read-only is no primary's, and takes writes all the same once the node is one.
func TestReadOnlyOptions(t *testing.T) {
	for options, fights := range map[string]bool{
		"": false, "transaction_read_only=1": true, "tx_read_only=ON": true, "transaction_read_only=0": false, "@@session.tx_read_only='on'": true,
	} {
		c := mysql.Open("app@tcp(h)/app?" + options)
		require.NoError(t, c.ConfigError())
		require.Equal(t, fights, c.FightsPrimary() != nil, options)
	}
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		l := link(t, c.Primary().AppDSN()+"?transaction_read_only=1&tx_read_only=1")
		query(t, l, "INSERT INTO t (v) VALUES (1)")
	})
}

// The caller's config is its own, and options that are no fields work: a password that is asked for on every dial.
func TestConfigIsCopied(t *testing.T) {
	onBoth(t, func(t *testing.T, c *dbtest.MySQLCluster, e mysql.Engine) {
		config, err := native.ParseDSN(c.Primary().AppDSN() + "?transaction_read_only=1")
		require.NoError(t, err)
		config.User = "nobody"
		asked := 0
		require.NoError(t, config.Apply(native.BeforeConnect(func(_ context.Context, config *native.Config) error {
			asked++
			config.User = dbtest.AppUser
			return nil
		})))
		connector := mysql.OpenConfig(config)
		require.Nil(t, config.DialFunc)
		require.Len(t, config.Params, 1)
		for range 2 {
			conn, err := connector.Connect(testContext(t))
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}
		require.Equal(t, 2, asked)
		require.NotNil(t, connector.Driver())
	})
}

func TestEngineOf(t *testing.T) {
	for version, want := range map[string]string{
		"8.0.11": "MySQL", "8.4.2": "MySQL", "9.7.4-2": "MySQL", "8.0.36-0ubuntu0.22.04.1": "MySQL",
		"10.6.18-MariaDB": "MariaDB", "10.11.19-MariaDB-0+deb12u1-log": "MariaDB", "11.8.2-MariaDB": "MariaDB",
		"5.5.5-10.11.19-MariaDB-log": "MariaDB",
		"5.7.44-log":                 "MySQL 5.7 is older than 8.0", "5.5.5-10.5.9-MariaDB": "MariaDB 10.5 is older than 10.6", "10.3.1-MariaDB": "older",
		"8.0.11-TiDB-v7.5.0": "TiDB", "": "does not begin with a number", "PostgreSQL 15.3": "does not begin with a number",
	} {
		e, err := mysql.EngineOf(version)
		if want == "MySQL" || want == "MariaDB" {
			require.NoError(t, err, version)
			require.Equal(t, want, e.Name(), version)
			continue
		}
		require.ErrorIs(t, err, mysql.ErrUnsupported, version)
		require.ErrorContains(t, err, want, version)
		require.NotContains(t, err.Error(), "\n")
	}
}

// K5-10: the flavour is the server's word, and a token of one is nothing to the other.
func TestK5_10_Flavour(t *testing.T) {
	for version, mariadb := range map[string]bool{"5.5.5-10.11.19-MariaDB-log": true, "8.4.2": false, "10.11.19-MariaDB": true} {
		e, err := mysql.EngineOf(version)
		require.NoError(t, err)
		require.Equal(t, mariadb, e.MariaDB)
	}
	maria, my := mariadbPosition(t, "0-1-5"), mysqlPosition(t, uuidA+":1-5")
	require.Zero(t, maria.CoveredBy(my))
	require.Zero(t, my.CoveredBy(maria))
}
