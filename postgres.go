package readroute

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"

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
// [Open]. options are those of pgx's own connector, such as stdlib.OptionBeforeConnect for a password that is asked for
// on every dial.
//
// One connector leads to one server: [Open] refuses one of several hosts, one that chooses by target_session_attrs, and
// for the primary one that sets default_transaction_read_only.
func PostgresConfig(config *pgx.ConnConfig, options ...stdlib.OptionOpenDB) driver.Connector {
	if config == nil {
		return &postgresConnector{err: errors.New("PostgresConfig was given nil")}
	}
	if !parsed(config) {
		return &postgresConnector{err: errors.New("the config of PostgresConfig was not made by pgx.ParseConfig, as pgx demands")}
	}
	config = config.Copy()
	c := &postgresConnector{config: config, options: slices.Clone(options), err: fights(config)}
	readOnly := config.Copy()
	config.RuntimeParams, readOnly.RuntimeParams = maps.Clone(config.RuntimeParams), maps.Clone(config.RuntimeParams)
	if readOnly.RuntimeParams == nil {
		readOnly.RuntimeParams = make(map[string]string)
	}
	// A startup parameter outlives DISCARD ALL.
	readOnly.RuntimeParams[readOnlyParam] = "on"
	for name, value := range config.RuntimeParams {
		if strings.EqualFold(name, readOnlyParam) {
			c.saysReadOnly = !isOff(value)
			delete(config.RuntimeParams, name) // a replica that is promoted takes writes
		}
	}
	c.native, c.readOnly = stdlib.GetConnector(*config, options...), stdlib.GetConnector(*readOnly, options...)
	return c
}

const readOnlyParam = "default_transaction_read_only"

// parsed reports that pgx will not panic for the config. pgx does not tell otherwise; nothing is dialled.
func parsed(config *pgx.ConnConfig) (ok bool) {
	defer func() { ok = recover() == nil }()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	probe := config.Copy()
	probe.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return nil, ctx.Err() }
	probe.LookupFunc = func(ctx context.Context, _ string) ([]string, error) { return nil, ctx.Err() }
	_, _ = pgx.ConnectConfig(ended, probe)
	return true
}

// isOff reports that PostgreSQL reads a value as false (parse_bool_with_len in src/backend/utils/adt/bool.c).
func isOff(value string) bool {
	v := strings.ToLower(strings.TrimSpace(value))
	switch {
	case v == "" || v == "o":
		return false
	case v == "0", strings.HasPrefix("false", v), strings.HasPrefix("no", v), strings.HasPrefix("off", v):
		return true
	}
	return false
}

// optionsSayReadOnly reports that a connection's "options" (-c name=value, --name=value) make its transactions read-only.
func optionsSayReadOnly(options string) bool {
	text := strings.ToLower(strings.ReplaceAll(options, "-", "_"))
	says := false
	for _, part := range strings.Split(text, readOnlyParam)[1:] {
		value, given := strings.CutPrefix(strings.TrimLeft(part, " "), "=")
		value, _, _ = strings.Cut(value, " ")
		says = !given || !isOff(value)
	}
	return says
}

// fights says which options of a config choose a server by themselves: that is this library's business, and a connector
// that does it leads to one server now and to another later under one name.
func fights(config *pgx.ConnConfig) error {
	var problems []error
	for _, f := range config.Fallbacks { // the same server without TLS is one as well
		if f.Host != config.Host || f.Port != config.Port {
			problems = append(problems, errors.New("its DSN names several hosts: make each of them a Node, which is found to be "+
				"the primary or a replica by itself"))
			break
		}
	}
	if optionsSayReadOnly(config.RuntimeParams["options"]) {
		problems = append(problems, errors.New("its options set "+readOnlyParam+": leave it out, sessions to replicas are read-only by "+
			"themselves, and the primary's, or a promoted replica's, must not be"))
	}
	if validate := reflect.ValueOf(config.ValidateConnect); config.ValidateConnect != nil {
		for _, chooses := range []pgconn.ValidateConnectFunc{
			pgconn.ValidateConnectTargetSessionAttrsReadWrite, pgconn.ValidateConnectTargetSessionAttrsReadOnly,
			pgconn.ValidateConnectTargetSessionAttrsPrimary, pgconn.ValidateConnectTargetSessionAttrsStandby,
			pgconn.ValidateConnectTargetSessionAttrsPreferStandby,
		} {
			if validate.Pointer() == reflect.ValueOf(chooses).Pointer() {
				problems = append(problems, errors.New("it sets target_session_attrs: leave it out, the role of a node is observed and "+
					"changes in a failover"))
			}
		}
	}
	return errors.Join(problems...)
}

// fightsPrimary says why the connector cannot be the primary's.
func (c *postgresConnector) fightsPrimary() error {
	if c.saysReadOnly {
		return errors.New("it sets " + readOnlyParam + ", so that every write would be refused: leave it out, sessions to replicas " +
			"are read-only by themselves")
	}
	return nil
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
	native := stdlib.GetConnector(*config, c.options...)
	return &postgresConnector{config: config, options: c.options, saysReadOnly: c.saysReadOnly, native: native, readOnly: native}
}

// dsnError says what is wrong with a DSN without repeating it: pgx masks passwords in its text, but not in every form.
func dsnError(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		return errors.New("the PostgreSQL DSN cannot be parsed, or a file that it names cannot be read: want a URL " +
			"(postgres://user@host/db) or keyword=value pairs")
	}
	return fmt.Errorf("the PostgreSQL DSN cannot be used: %T", err)
}

// postgresConnector opens pgx connections; its read-only form opens those for replicas.
type postgresConnector struct {
	config           *pgx.ConnConfig
	options          []stdlib.OptionOpenDB
	saysReadOnly     bool // the user's own config makes sessions read-only
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
