package marker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

// table is a marker table that runs the statements of this package as a database would, one at a time.
type table struct {
	mu   sync.Mutex
	rows map[string]uint64
}

var (
	insertText = regexp.MustCompile(`^INSERT INTO m \(writer, seq, owner, moved_at\) VALUES \('([^']+)', 1, '[^']*', \d+\)$`)
	updateText = regexp.MustCompile(`^UPDATE m SET seq = (\d+), moved_at = \d+ WHERE writer = '([^']+)' AND seq = (\d+)$`)
)

func (t *table) exec(_ context.Context, query string) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := insertText.FindStringSubmatch(query); m != nil {
		if _, found := t.rows[m[1]]; found {
			return 0, errors.New("duplicate key")
		}
		t.rows[m[1]] = 1
		return 1, nil
	}
	m := updateText.FindStringSubmatch(query)
	if m == nil {
		return 0, fmt.Errorf("unexpected statement %q", query)
	}
	var to, from uint64
	fmt.Sscan(m[1], &to)
	fmt.Sscan(m[3], &from)
	if t.rows[m[2]] != from || from == 0 {
		return 0, nil
	}
	t.rows[m[2]] = to
	return 1, nil
}

func newTestWriters(t testing.TB) (*Writers, *table) {
	name, err := NewTable("m")
	require.NoError(t, err)
	return NewWriters(name, "Web.Server 1"), &table{rows: make(map[string]uint64)}
}

var seen = func() core.Position {
	set, _ := core.ParseMarkerSet("readroute:1")
	return core.MarkerPosition(7, set, 0)
}()

func TestWritersMoveTheirRows(t *testing.T) {
	w, db := newTestWriters(t)
	require.Nil(t, w.Mark(core.Position{}), "there is no table")
	first := w.Mark(seen)
	require.NoError(t, first.Move(t.Context(), db.exec))
	second := w.Mark(seen)
	require.NoError(t, second.Move(t.Context(), db.exec))
	require.Len(t, db.rows, 2, "two transactions at once have a row each")
	first.Committed()
	second.Committed()
	for range 5 {
		m := w.Mark(seen)
		require.NoError(t, m.Move(t.Context(), db.exec))
		m.Committed()
	}
	require.Len(t, db.rows, 2, "the rows are used again")
	again := w.Mark(seen)
	require.NoError(t, again.Move(t.Context(), db.exec))
	require.Regexp(t, `^7/web-server1\.[a-z2-9]{13}:7$`, again.Position().String())
	for name := range db.rows {
		require.True(t, core.IsMarkerWriter(name), name)
	}
}

// TestWritersLeaveARowThatMoved: a row that is not where its process has left it is another's, or of another history.
func TestWritersLeaveARowThatMoved(t *testing.T) {
	w, db := newTestWriters(t)
	m := w.Mark(seen)
	require.NoError(t, m.Move(t.Context(), db.exec))
	m.Committed()
	for name := range db.rows {
		db.rows[name] = 9
	}
	m = w.Mark(seen)
	require.NoError(t, m.Move(t.Context(), db.exec))
	require.Len(t, db.rows, 2)
	require.Contains(t, m.Position().String(), ":1")
	m.Committed()
	require.Len(t, db.rows, 2)
}

// TestWritersLeaveALostRowAlone: a row whose transaction is rolled back behind a connection that is gone is taken again when the server
// has surely noticed, if it is where it was.
func TestWritersLeaveALostRowAlone(t *testing.T) {
	w, db := newTestWriters(t)
	clock := time.Now()
	w.now = func() time.Time { return clock }
	m := w.Mark(seen)
	require.NoError(t, m.Move(t.Context(), db.exec))
	m.Committed()
	m = w.Mark(seen) // the connection is gone before it is moved
	lost := m.row.writer
	m.Lost()
	m = w.Mark(seen)
	require.NotEqual(t, lost, m.row.writer, "a server may still hold its lock")
	require.NoError(t, m.Move(t.Context(), db.exec))
	held := m // and stays open

	clock = clock.Add(lostFor)
	m = w.Mark(seen)
	require.Equal(t, lost, m.row.writer)
	require.NoError(t, m.Move(t.Context(), db.exec))
	require.Equal(t, lost, m.row.writer)
	m.Committed()
	never := &Mark{w: w, row: &row{writer: w.newWriter()}}
	never.Lost()
	clock = clock.Add(lostFor)
	require.NotEqual(t, never.row.writer, w.Mark(seen).row.writer, "one that was never in the table")
	held.RolledBack()
}

// TestWritersOfUnknownOutcome: a commit whose answer is lost may have been seen, and then be lost in a failover. Its sequence stands for
// no other transaction, however long ago that was.
func TestWritersOfUnknownOutcome(t *testing.T) {
	w, db := newTestWriters(t)
	clock := time.Now()
	w.now = func() time.Time { return clock }
	m := w.Mark(seen)
	require.NoError(t, m.Move(t.Context(), db.exec))
	m.Committed()
	m = w.Mark(seen)
	require.NoError(t, m.Move(t.Context(), db.exec))
	unknown := m.Position()
	db.rows[m.row.writer]-- // a server is promoted that does not have it
	m.Unknown()
	for range 3 {
		clock = clock.Add(24 * time.Hour)
		m = w.Mark(seen)
		require.NoError(t, m.Move(t.Context(), db.exec))
		require.NotEqual(t, unknown, m.Position())
		m.Committed()
	}
}

func TestWritersRolledBack(t *testing.T) {
	w, db := newTestWriters(t)
	m := w.Mark(seen)
	require.Error(t, m.Move(t.Context(), func(context.Context, string) (int64, error) { return 0, errors.New("no") }))
	m.RolledBack()
	name := m.row.writer
	m = w.Mark(seen)
	require.NoError(t, m.Move(t.Context(), db.exec))
	require.Equal(t, name, m.row.writer)
	require.ErrorIs(t, w.Mark(seen).Move(t.Context(), func(context.Context, string) (int64, error) { return 0, nil }), errNotMoved)
}

// TestWritersNeverShareARow: whatever is committed, rolled back or lost, in whatever order, a sequence of a row stands for one
// transaction only, and nobody waits.
func TestWritersNeverShareARow(t *testing.T) {
	processes := make([]*Writers, 3)
	var db *table
	for i := range processes {
		processes[i], db = newTestWriters(t)
	}
	var mu sync.Mutex
	stood := make(map[string]int)
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			for n := range 200 {
				m := processes[i%3].Mark(seen)
				if err := m.Move(t.Context(), db.exec); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				stood[m.Position().String()]++
				mu.Unlock()
				if n%17 == 0 {
					m.Unknown()
				} else {
					m.Committed()
				}
			}
		})
	}
	all.Wait()
	for position, n := range stood {
		require.Equal(t, 1, n, position)
	}
	require.Len(t, stood, 12*200)
}

func TestWritersOwn(t *testing.T) {
	w, db := newTestWriters(t)
	other, _ := newTestWriters(t)
	for _, x := range []*Writers{w, other} {
		m := x.Mark(seen)
		require.NoError(t, m.Move(t.Context(), db.exec))
		m.Committed()
	}
	p, err := Position(db.read())
	require.NoError(t, err)
	own := w.own(p)
	require.Equal(t, p.System, own.System)
	n := 0
	for e := range own.Markers().Entries() {
		n++
		require.Equal(t, uint64(1), e.Sequence)
	}
	require.Equal(t, 1, n)
	fresh, _ := newTestWriters(t)
	require.True(t, fresh.own(p).IsZero())
}

func (t *table) read() [][]string {
	rows := [][]string{{identity, "1", "ff"}}
	for name, seq := range t.rows {
		rows = append(rows, []string{name, fmt.Sprint(seq), ""})
	}
	return rows
}

func TestPosition(t *testing.T) {
	p, err := Position([][]string{{"a", "3", ""}, {identity, "1", "ff"}})
	require.NoError(t, err)
	require.Equal(t, "255/a:3,readroute:1", p.String())
	require.EqualValues(t, 4, p.LSN)
	with, err := Position([][]string{{"a", "3", ""}, {"b", "0", ""}, {identity, "1", "ff"}})
	require.NoError(t, err)
	require.Equal(t, p, with, "a row that nobody has moved")
	for what, rows := range map[string][][]string{
		"nothing":       nil,
		"no number":     {{"a", "3", ""}},
		"columns":       {{"a", "3"}},
		"a bad seq":     {{"a", "x", ""}, {identity, "1", "ff"}},
		"a bad number":  {{identity, "1", "xyz"}},
		"a zero number": {{identity, "1", "0"}},
		"a bad writer":  {{"a b", "1", ""}, {identity, "1", "ff"}},
	} {
		_, err := Position(rows)
		require.Error(t, err, what)
	}
	require.Equal(t, [][]string{{"a", "3", ""}, {identity, "1", "ff"}}, textRows("a:3:,readroute:1:ff"))
	require.Nil(t, textRows(""))
}

func TestNewTable(t *testing.T) {
	for _, name := range []string{"m", "My_Table9", "app.m", "db.app.m"} {
		table, err := NewTable(name)
		require.NoError(t, err)
		require.Equal(t, name, table.String())
		require.Contains(t, table.ReadSQL(), " FROM "+name)
	}
	table, err := NewTable("")
	require.NoError(t, err)
	require.Equal(t, DefaultTable, table.String())
	for _, name := range []string{".", "a.", ".a", "a b", "a;b", "a'b", `"a"`, "9a", "a.b.c.d", "ä", strings.Repeat("a", 64)} {
		_, err := NewTable(name)
		require.Error(t, err, name)
	}
}

func TestLabelsFitIntoNames(t *testing.T) {
	for label, want := range map[string]string{
		"":                      "",
		"Web-1.example.com":     "web-1-example-com",
		"a b/c'd":               "abcd",
		strings.Repeat("x", 99): strings.Repeat("x", maxLabel),
		"日本":                    "",
	} {
		require.Equal(t, want, cleanLabel(label))
		name := NewWriters(Table{"m"}, label).newWriter()
		require.True(t, core.IsMarkerWriter(name), name)
		require.NotEqual(t, identity, name)
	}
}
