package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Connector opens connections of go-sql-driver/mysql, unwrapped, and knows their sockets. Its methods may be called from
// several goroutines.
//
// The networks that Go itself knows, tcp, tcp4, tcp6 and unix, are dialled with the config's DialFunc, else as the driver does it.
// One that is registered with the driver under another name is left to the driver, and its sockets are not known; of one
// that is registered under one of these four names nothing is seen: set DialFunc instead.
type Connector struct {
	native       driver.Connector
	saysReadOnly string // the name of the variable with which the user's own config makes sessions read-only
	err          error
}

// Open returns a connector for a data source name of the driver. What is wrong with it is ConfigError's to tell.
func Open(dsn string) *Connector {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return &Connector{err: dsnError(err)}
	}
	return OpenConfig(config)
}

// OpenConfig returns a connector for a copy of config, with the options that were applied to it, such as
// mysql.BeforeConnect. What is wrong with it, nil included, is ConfigError's to tell.
func OpenConfig(config *mysql.Config) *Connector {
	if config == nil {
		return &Connector{err: errors.New("MySQLConfig was given nil")}
	}
	config = config.Clone()
	c := &Connector{}
	if c.err = fights(config); c.err != nil {
		return c
	}
	for _, name := range slices.Sorted(maps.Keys(config.Params)) {
		if isVariable(name, "transaction_read_only", "tx_read_only") {
			if isOn(config.Params[name]) {
				c.saysReadOnly = name
			}
			delete(config.Params, name) // a replica that is promoted takes writes
		}
	}
	switch config.Net {
	case "", "tcp", "tcp4", "tcp6", "unix":
		if config.DialFunc == nil {
			config.DialFunc = dial
		}
	}
	if config.DialFunc != nil {
		config.DialFunc = remember(config.DialFunc)
	}
	c.native, c.err = mysql.NewConnector(config)
	return c
}

// fights says which options of a config hide from the library what it needs to see.
func fights(config *mysql.Config) error {
	var problems []error
	if config.RejectReadOnly {
		problems = append(problems, errors.New("it sets rejectReadOnly, which makes bad connections of the answers of a read-only "+
			"server, so that database/sql runs the statement again and a failover is not seen: leave it out"))
	}
	for _, name := range slices.Sorted(maps.Keys(config.Params)) {
		value := config.Params[name]
		switch {
		case isVariable(name, "autocommit") && !isOn(value):
			problems = append(problems, errors.New("it turns autocommit off, so that a write is not committed when it returns, and a "+
				"replica serves an old snapshot: leave it out, and use transactions"))
		case isVariable(name, "completion_type") && !isNoChain(value):
			problems = append(problems, errors.New("it sets completion_type, so that a COMMIT begins another transaction, or ends the session: "+
				"leave it out"))
		case isVariable(name, "sql_log_bin") && !isOn(value):
			problems = append(problems, errors.New("it turns sql_log_bin off, so that what is written never comes to a replica: leave it out"))
		}
	}
	return errors.Join(problems...)
}

// isVariable reports whether a parameter, which the driver sets as it is written, is one of these session variables.
func isVariable(param string, names ...string) bool {
	param = strings.ToLower(strings.Trim(param, " `"))
	for _, scope := range []string{"@@session.", "@@local.", "@@", "session ", "local "} {
		param = strings.TrimPrefix(param, scope)
	}
	return slices.Contains(names, strings.Trim(param, " `"))
}

// isOn reads a parameter's value, which is an expression.
func isOn(value string) bool {
	value = strings.ToUpper(strings.Trim(value, ` '"`))
	return value == "1" || value == "ON" || value == "TRUE"
}

// isNoChain reads a value of completion_type.
func isNoChain(value string) bool {
	value = strings.ToUpper(strings.Trim(value, ` '"`))
	return value == "0" || value == "NO_CHAIN" || value == "DEFAULT"
}

// dsnError says what is wrong with a data source name without repeating it: one that is read wrongly may have its
// password anywhere. These texts of the driver are constants.
func dsnError(err error) error {
	const constant = "invalid DSN: "
	if strings.HasPrefix(err.Error(), constant) {
		return fmt.Errorf("the MySQL DSN cannot be parsed: %s", strings.TrimPrefix(err.Error(), constant))
	}
	return errors.New("the MySQL DSN cannot be parsed: want user:password@tcp(host:3306)/database?option=value")
}

// Connect implements driver.Connector. It blocks until the connection is open or has failed, or ctx ends.
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.err != nil {
		return nil, c.err
	}
	d := &dialling{}
	conn, err := c.native.Connect(context.WithValue(ctx, diallingKey{}, d))
	if err != nil {
		return nil, err
	}
	if d.socket != nil {
		d.socket.belongs(conn)
	}
	return conn, nil
}

// Driver implements driver.Connector.
func (c *Connector) Driver() driver.Driver { return &mysql.MySQLDriver{} }

// ConfigError is why the connector cannot work, or nil. It names options, and never repeats a DSN or a password.
func (c *Connector) ConfigError() error { return c.err }

// FightsPrimary says why the connector cannot be the primary's, or nil.
func (c *Connector) FightsPrimary() error {
	if c.saysReadOnly != "" {
		return fmt.Errorf("it sets %s, so that every write would be refused: leave it out, sessions to replicas are read-only by themselves",
			c.saysReadOnly)
	}
	return nil
}
