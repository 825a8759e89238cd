package readroute

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// Postgres returns a connector for a PostgreSQL server, over pgx's database/sql driver. dsn is a URL or a keyword/value
// string. A DSN that cannot be parsed is reported by [Open], without its text.
func Postgres(dsn string) driver.Connector {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return &postgresConnector{err: dsnError(err)}
	}
	return PostgresConfig(config)
}

// PostgresConfig returns a connector for a PostgreSQL server. It keeps a copy of config. A nil config is reported by
// [Open].
func PostgresConfig(config *pgx.ConnConfig) driver.Connector {
	if config == nil {
		return &postgresConnector{err: errors.New("PostgresConfig was given nil")}
	}
	config = config.Copy()
	readOnly := config.Copy()
	readOnly.RuntimeParams = maps.Clone(config.RuntimeParams)
	if readOnly.RuntimeParams == nil {
		readOnly.RuntimeParams = make(map[string]string)
	}
	// A startup parameter outlives DISCARD ALL.
	readOnly.RuntimeParams["default_transaction_read_only"] = "on"
	return &postgresConnector{
		config:   config,
		native:   stdlib.GetConnector(*config),
		readOnly: stdlib.GetConnector(*readOnly),
	}
}

// pooled returns the connector for a node behind a pooler in transaction mode. A mode that prepares a statement in one
// round trip and runs it in another would find itself in another session in between.
func (c *postgresConnector) pooled() driver.Connector {
	if c.err != nil {
		return c
	}
	config := c.config.Copy()
	switch config.DefaultQueryExecMode {
	case pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeSimpleProtocol:
	default:
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	native := stdlib.GetConnector(*config)
	return &postgresConnector{config: config, native: native, readOnly: native}
}

// dsnError says what is wrong with a DSN without repeating it: pgx masks passwords in its text, but not in every form.
func dsnError(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		return errors.New("the PostgreSQL DSN cannot be parsed: want a URL (postgres://user@host/db) or keyword=value pairs")
	}
	return fmt.Errorf("the PostgreSQL DSN cannot be used: %T", err)
}

// postgresConnector opens pgx connections; its read-only form opens those for replicas.
type postgresConnector struct {
	config           *pgx.ConnConfig
	native, readOnly driver.Connector
	err              error
}

// Connect implements driver.Connector.
func (c *postgresConnector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.err != nil {
		return nil, c.err
	}
	return c.native.Connect(ctx)
}

// Driver implements driver.Connector.
func (c *postgresConnector) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// ReadOnly returns the connector for sessions that refuse writes.
func (c *postgresConnector) ReadOnly() driver.Connector { return c.readOnly }

// configError is why the connector cannot work.
func (c *postgresConnector) configError() error { return c.err }
