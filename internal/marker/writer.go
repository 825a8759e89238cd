package marker

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/sqlclass"
)

// Writers are the rows of one process, or of one pool in it. It is safe for concurrent use.
type Writers struct {
	table Table
	label string
	now   func() time.Time

	mu   sync.Mutex
	free []*row              // guarded by mu: nobody moves them now; the one that was given back last is at the end
	lost []*row              // guarded by mu: perhaps a server still holds their locks; the one that was given back last is at the end
	ours map[string]struct{} // guarded by mu: the names that were ever in the table, as far as is known
}

// row is one that this process moves.
type row struct {
	writer string
	seq    uint64    // as it was left; 0 before it is in the table
	since  time.Time // when it was lost
}

// lostFor is how long a lost row is left alone: a server that has not noticed that a connection is gone still holds its lock.
const lostFor = time.Minute

// NewWriters returns the writers of a process that calls itself label, in which what no writer's name can hold is left out.
func NewWriters(table Table, label string) *Writers {
	return &Writers{table: table, label: cleanLabel(label), now: time.Now, ours: make(map[string]struct{})}
}

// cleanLabel keeps what can be in a writer's name. Databases may compare names without regard to case.
func cleanLabel(label string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		case r == '.':
			return '-'
		}
		return -1
	}, strings.ToLower(label))
	return clean[:min(len(clean), maxLabel)]
}

var lowerBase32 = base32.NewEncoding("abcdefghijkmnpqrstuvwxyz23456789").WithPadding(base32.NoPadding)

// newWriter returns a name that nobody has had: 64 random bits, after the label.
func (w *Writers) newWriter() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	name := lowerBase32.EncodeToString(random[:])
	if w.label == "" {
		return name
	}
	return w.label + "." + name
}

// take returns a row that nobody else moves until it is given back.
func (w *Writers) take() *row {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.free); n > 0 {
		r := w.free[n-1]
		w.free = w.free[:n-1]
		return r
	}
	if len(w.lost) > 0 && w.now().Sub(w.lost[0].since) >= lostFor {
		r := w.lost[0]
		w.lost = w.lost[1:]
		return r
	}
	return &row{writer: w.newWriter()}
}

func (w *Writers) give(r *row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = append(w.free, r)
}

// lose leaves a row alone for a while. One that was never in the table is not tried again: until its lock is gone a second row of its
// name would wait, and nobody misses it.
func (w *Writers) lose(r *row) {
	if r.seq == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.since = w.now()
	w.lost = append(w.lost, r)
}

// note remembers that a row of that name may be in the table.
func (w *Writers) note(writer string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ours[writer] = struct{}{}
}

// own returns the part of a position that this process has written.
func (w *Writers) own(p core.Position) core.Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	var entries []core.MarkerEntry
	set := p.Markers()
	for writer := range w.ours {
		if seq := set.Find(writer); seq > 0 {
			entries = append(entries, core.MarkerEntry{Writer: writer, Sequence: seq})
		}
	}
	own, err := core.NewMarkerSet(entries...)
	if err != nil {
		return core.Position{} // they come out of a set
	}
	return core.MarkerPosition(p.System, own, p.LSN)
}

// Mark is one transaction's move of one row. It implements vconn.Mark.
type Mark struct {
	w     *Writers
	row   *row
	table uint64
	next  uint64 // where the transaction leaves the row

	dialect sqlclass.Dialect
}

// Mark takes a row for a transaction on a node that was seen at a position; nil when that is no marker's.
func (w *Writers) Mark(seen core.Position) *Mark {
	if seen.Kind != core.KindMarker {
		return nil
	}
	return &Mark{w: w, row: w.take(), table: seen.System}
}

var errNotMoved = errors.New("its row was not made")

// Move moves the row in the transaction in which exec runs statements.
func (m *Mark) Move(ctx context.Context, exec func(ctx context.Context, query string) (int64, error)) error {
	if m.row.seq > 0 {
		query, moved := m.w.table.moveSQL(m.dialect, m.row.writer, m.row.seq, m.w.now())
		n, err := exec(ctx, query)
		if err != nil {
			return err
		}
		if n == moved {
			m.next = m.row.seq + 1
			return nil
		}
		// It is not where it was left, and whoever else moves it is not known.
		m.row = &row{writer: m.w.newWriter()}
	}
	m.w.note(m.row.writer)
	n, err := exec(ctx, m.w.table.insertSQL(m.row.writer, m.w.label, m.w.now()))
	if err == nil && n != 1 {
		err = fmt.Errorf("%w: %d rows were", errNotMoved, n)
	}
	if err != nil {
		return err
	}
	m.next = 1
	return nil
}

// Position is where the row is once the transaction that has moved it is committed.
func (m *Mark) Position() core.Position {
	set, err := core.NewMarkerSet(core.MarkerEntry{Writer: m.row.writer, Sequence: m.next})
	if err != nil {
		return core.Position{} // it was not moved
	}
	return core.MarkerPosition(m.table, set, 0)
}

// Committed gives the row back after a commit.
func (m *Mark) Committed() {
	m.row.seq = m.next
	m.w.give(m.row)
}

// RolledBack gives the row back where it was.
func (m *Mark) RolledBack() { m.w.give(m.row) }

// Lost leaves the row alone for a while: it is where it was, and the server may still hold its lock.
func (m *Mark) Lost() { m.w.lose(m.row) }

// Unknown leaves the row for ever: nobody knows where it is. If it has moved, and a failover loses that, it would stand for another
// transaction the next time.
func (m *Mark) Unknown() {}
