package readroute

import (
	"database/sql/driver"

	"github.com/go-sql-driver/mysql"

	engine "github.com/readroute/readroute/internal/mysql"
)

// MySQL returns a connector for a MySQL server, 8.0 or later, or a MariaDB server, 10.6 or later, over
// go-sql-driver/mysql. dsn is in the driver's form, user:password@tcp(host:3306)/database. Which of the two it is, is asked of the
// server. A DSN that cannot be parsed is reported by [Open], without its text.
func MySQL(dsn string) driver.Connector { return &mysqlConnector{engine.Open(dsn)} }

// MySQLConfig returns a connector for a MySQL or MariaDB server. It keeps a copy of config, with the options that were applied
// to it, such as mysql.BeforeConnect for a password that is asked for on every dial. A nil config is reported by [Open].
//
// [Open] refuses a config that hides what the library has to see: rejectReadOnly, which makes bad connections of a read-only
// server's answers; autocommit off, with which a write is not committed when it returns and a replica serves an old
// snapshot; sql_log_bin off, with which nothing comes to a replica; and for the primary transaction_read_only. A connection to a
// replica sets transaction_read_only (MariaDB: tx_read_only) for its session by itself.
func MySQLConfig(config *mysql.Config) driver.Connector {
	return &mysqlConnector{engine.OpenConfig(config)}
}

// mysqlConnector is internal/mysql's, with what Open asks of it.
type mysqlConnector struct{ *engine.Connector }

// configError is why the connector cannot work.
func (c *mysqlConnector) configError() error { return c.ConfigError() }

// fightsPrimary says why the connector cannot be the primary's.
func (c *mysqlConnector) fightsPrimary() error { return c.FightsPrimary() }
