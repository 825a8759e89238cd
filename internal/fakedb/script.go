package fakedb

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Script is a driver.Connector whose connections do what its fields say. The fields may not change once it is in use.
// A function that is nil stands for success: one affected row, no rows, every argument accepted.
type Script struct {
	// Answer is asked about every query first, and what it answers is not written down.
	Answer Answer

	// Direct gives connections ExecerContext, QueryerContext, ConnPrepareContext, ConnBeginTx and Pinger. Without it a
	// connection is only a driver.Conn.
	Direct bool
	// Resetter and Validator give connections those interfaces; a Validator is a Resetter too.
	Resetter, Validator bool
	// ConnChecker gives connections, StmtChecker statements, a NamedValueChecker.
	ConnChecker, StmtChecker bool
	// Converter gives statements a ColumnConverter.
	Converter bool

	Connect      func(conn int) error
	Prepare      func(conn int, query string) error
	CloseStmt    func(query string)
	NumInput     func(query string) int // nil stands for -1
	Exec         func(ctx context.Context, conn int, query string, args []driver.NamedValue) (driver.Result, error)
	Query        func(ctx context.Context, conn int, query string, args []driver.NamedValue) (driver.Rows, error)
	Begin        func(conn int) error
	Commit       func(conn int) error
	Rollback     func(conn int) error
	Ping         func(conn int) error
	ResetSession func(ctx context.Context, conn int) error
	IsValid      func(conn int) bool
	// CheckConn and CheckStmt are what ConnChecker and StmtChecker do, Convert what Converter does.
	CheckConn, CheckStmt func(*driver.NamedValue) error
	Convert              func(column int) driver.ValueConverter
	// SkipDirect makes ExecContext and QueryContext of a connection return driver.ErrSkip.
	SkipDirect bool

	mu    sync.Mutex
	conns []*scriptConn
	calls []call
}

// A call is one line of the record.
type call struct {
	conn     int
	text     string
	answered bool
}

// Calls returns what was done to the connections, in order: the number of the connection, counted from 1, and the call.
// Connections that did nothing but answer are left out, and so are the answers.
func (s *Script) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	busy, answering := map[int]bool{}, map[int]bool{}
	for _, c := range s.calls {
		switch {
		case c.answered:
			answering[c.conn] = true
		case c.text != "connect" && c.text != "close":
			busy[c.conn] = true
		}
	}
	number := map[int]int{}
	var lines []string
	for _, c := range s.calls {
		if c.answered || answering[c.conn] && !busy[c.conn] {
			continue
		}
		if number[c.conn] == 0 {
			number[c.conn] = len(number) + 1
		}
		lines = append(lines, fmt.Sprintf("%d %s", number[c.conn], c.text))
	}
	return lines
}

// Count is the number of calls whose text begins with prefix.
func (s *Script) Count(prefix string) int {
	n := 0
	for _, line := range s.Calls() {
		if _, text, _ := strings.Cut(line, " "); strings.HasPrefix(text, prefix) {
			n++
		}
	}
	return n
}

// Opened is how many connections were ever opened, those that only answer included: their numbers are 1 and up.
func (s *Script) Opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *Script) note(conn int, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call{conn: conn, text: fmt.Sprintf(format, args...)})
}

// Driver returns a driver that opens connections of s, whatever the name.
func (s *Script) Driver() driver.Driver { return scriptDriver{s} }

type scriptDriver struct{ script *Script }

func (d scriptDriver) Open(string) (driver.Conn, error) {
	return connectScript(d.script)
}

func connectScript(s *Script) (driver.Conn, error) {
	s.mu.Lock()
	c := &scriptConn{script: s, n: len(s.conns) + 1}
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	s.note(c.n, "connect")
	if s.Connect != nil {
		if err := s.Connect(c.n); err != nil {
			return nil, err
		}
	}
	return c.interfaces(), nil
}

// Connector returns the connector of s. The name Connect is taken by a field.
func (s *Script) Connector() driver.Connector { return scriptConnector{s} }

type scriptConnector struct{ script *Script }

func (c scriptConnector) Connect(context.Context) (driver.Conn, error) {
	return connectScript(c.script)
}

func (c scriptConnector) Driver() driver.Driver { return c.script.Driver() }

// direct is what Direct adds.
type direct interface {
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
}

// interfaces returns c with the optional interfaces that the script chose, and no others.
func (c *scriptConn) interfaces() driver.Conn {
	s := c.script
	d, v, r := directConn{c}, validConn{c}, resetConn{c}
	k := checkConn{c}
	type (
		resetter = driver.SessionResetter
		valid    = driver.Validator
		checker  = driver.NamedValueChecker
	)
	switch {
	case s.Direct && s.Validator && s.ConnChecker:
		return struct {
			driver.Conn
			direct
			resetter
			valid
			checker
		}{c, d, r, v, k}
	case s.Direct && s.Validator:
		return struct {
			driver.Conn
			direct
			resetter
			valid
		}{c, d, r, v}
	case s.Direct && s.Resetter && s.ConnChecker:
		return struct {
			driver.Conn
			direct
			resetter
			checker
		}{c, d, r, k}
	case s.Direct && s.Resetter:
		return struct {
			driver.Conn
			direct
			resetter
		}{c, d, r}
	case s.Direct && s.ConnChecker:
		return struct {
			driver.Conn
			direct
			checker
		}{c, d, k}
	case s.Direct:
		return struct {
			driver.Conn
			direct
		}{c, d}
	case s.Validator && s.ConnChecker:
		return struct {
			driver.Conn
			resetter
			valid
			checker
		}{c, r, v, k}
	case s.Validator:
		return struct {
			driver.Conn
			resetter
			valid
		}{c, r, v}
	case s.Resetter && s.ConnChecker:
		return struct {
			driver.Conn
			resetter
			checker
		}{c, r, k}
	case s.Resetter:
		return struct {
			driver.Conn
			resetter
		}{c, r}
	case s.ConnChecker:
		return struct {
			driver.Conn
			checker
		}{c, k}
	}
	return c
}

// values prints arguments with their types: a conversion that was left out shows.
func values(args []driver.NamedValue) string {
	if len(args) == 0 {
		return ""
	}
	var b strings.Builder
	for _, a := range args {
		name := a.Name
		if name == "" {
			name = fmt.Sprint(a.Ordinal)
		}
		fmt.Fprintf(&b, " %s=%T(%v)", name, a.Value, a.Value)
	}
	return b.String()
}

func named(args []driver.Value) []driver.NamedValue {
	out := make([]driver.NamedValue, len(args))
	for i, v := range args {
		out[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return slices.Clip(out)
}
