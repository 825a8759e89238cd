package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
)

// maxWait bounds a wait on the server's side, whatever the caller asks for.
const maxWait = time.Hour

// ErrWaitOnPrimary is returned by [Engine.WaitSQL] for a MariaDB primary, on which MASTER_GTID_WAIT never sees anything.
var ErrWaitOnPrimary = errors.New("read a position: a MariaDB primary cannot be asked to wait")

// WaitSQL returns the statement with which a server in a role waits until it shows p. The server gives up by itself after
// timeout, which is rounded up to milliseconds and is an hour at most: a client that goes away leaves it waiting. Zero or
// less only looks.
//
// A zero means to wait for ever to MySQL, and a negative number does to MariaDB: neither is ever sent.
func (e Engine) WaitSQL(p core.Position, role core.Role, timeout time.Duration) (string, error) {
	if p.Kind != e.Kind() {
		return "", fmt.Errorf("wait for a position: %v is none of %s", p, e.Name())
	}
	ms := (min(timeout, maxWait) + time.Millisecond - 1) / time.Millisecond
	seconds := fmt.Sprintf("%d.%03d", ms/1000, ms%1000)
	if e.MariaDB {
		if role == core.RolePrimary {
			return "", ErrWaitOnPrimary
		}
		if ms <= 0 {
			seconds = "0"
		}
		return "SELECT MASTER_GTID_WAIT('" + heads(p.Domains()) + "', " + seconds + ")", nil
	}
	set := p.GTIDs().String()
	if ms <= 0 {
		return "SELECT GTID_SUBSET('" + set + "', @@GLOBAL.gtid_executed) = 0", nil
	}
	return "SELECT WAIT_FOR_EXECUTED_GTID_SET('" + set + "', " + seconds + ")", nil
}

// heads is a list with one GTID a domain, which is all that MASTER_GTID_WAIT reads.
func heads(list core.MariaDBGTID) string {
	var b strings.Builder
	last := int64(-1)
	for e := range list.Entries() {
		if int64(e.Domain) == last {
			continue
		}
		last = int64(e.Domain)
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		head, _ := list.Head(e.Domain)
		fmt.Fprintf(&b, "%d-%d-%d", head.Domain, head.Server, head.Sequence)
	}
	return b.String()
}

// reached reads a wait's answer. 0 is the one that means yes: 1 and -1 say that the time was up, NULL that something was
// wrong.
func reached(row []string) bool { return len(row) == 1 && row[0] == "0" }

// Wait has the server, which is in a role as far as the caller knows, wait for p, and reports whether it came to it in
// time. It returns with ctx's error when ctx ends first; the server then waits on for the rest of timeout.
//
// true of MySQL is proof: the server shows p. Of MariaDB it is a reason to look again, and proves nothing: MASTER_GTID_WAIT
// goes by numbers alone, and a replica of a primary that never had 0-1-105 has reached it with 0-2-106.
func (e Engine) Wait(ctx context.Context, link monitor.Link, p core.Position, role core.Role, timeout time.Duration) (bool, error) {
	query, err := e.WaitSQL(p, role, timeout)
	if err != nil {
		return false, err
	}
	row, err := link.QueryRow(ctx, query)
	if err != nil {
		return false, err
	}
	return reached(row), nil
}
