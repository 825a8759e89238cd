package readroute

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/readroute/readroute/internal/engine"
	"github.com/readroute/readroute/internal/marker"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/mysql"
	"github.com/readroute/readroute/internal/sqlclass"
	"github.com/readroute/readroute/internal/vconn"
)

// DefaultMarkerTable is the marker table's name.
const DefaultMarkerTable = marker.DefaultTable

// Marker makes positions for servers that tell none: of a small table that is replicated like any other. It is for copies of SQLite, logical
// replication, and managed services that keep their log to themselves; see Config.Marker.
//
// Each transaction that writes through the pool also moves a row of the table by one, in the same transaction, and a replica has
// caught up with it when it shows the row there. So a write outside a transaction is put into one, and costs three more round trips:
// BEGIN, the move, COMMIT. A statement that cannot run in a transaction, or whose text commits by itself (VACUUM, a CALL, several
// statements in one text, DDL on MySQL), runs as it is and holds its session to the primary for StickyWindow. So does what is done
// on a native connection ([DB.PrimaryRaw]). What is written past the pool moves nothing: nobody waits for it, and no level promises it.
//
// A process has as many rows as it has had writing transactions open at one time, and no row is ever moved by two: writers wait for
// each other neither within a process nor between processes, at any isolation level. The names of rows have a random part, so two
// processes may have the same Writer. A row that is not where its process has left it, because a failover has lost what it wrote,
// or a backup was put back, is left behind for a new one. Rows of processes that are gone stay until [PruneMarker].
//
// The zero Marker is ready for use. It is a value.
type Marker struct {
	// Table is the table's name, with a schema and a dot before it or without: ASCII letters, digits and underscores.
	// Defaults to "readroute_marker".
	Table string

	// Writer is what this process calls itself in the table, for whoever reads it. Of it at most 24 letters, digits, dashes and
	// underscores are kept. It need not be unique.
	// Defaults to the name of the host.
	Writer string

	// StateSQL is a statement that tells the role of the server at the other end of a connection, in one row: "primary" or "replica",
	// and in a second column, if there is one, a text that changes when the server is started anew or put back to an older state. It
	// is run before each look at the table. After a failover the server that says "primary" takes the writes.
	// Defaults to none: Config.Primary is the primary, unless it is a PostgreSQL, MySQL or MariaDB server that says that it is a
	// replica, and no other node becomes it. A server that is put back to an older state is then noticed only by its rows.
	StateSQL string
}

// options returns what the engine needs of m.
func (m *Marker) options() (*marker.Options, error) {
	table, err := marker.NewTable(m.Table)
	if err != nil {
		return nil, err
	}
	writer := m.Writer
	if writer == "" {
		writer, _ = os.Hostname() // without one the rows have random names only
	}
	return &marker.Options{Table: table, Writers: marker.NewWriters(table, writer), StateSQL: m.StateSQL}, nil
}

// CreateMarker makes the marker table through db, a pool of the primary such as [DB.PrimaryDB]. It does nothing when the table is there, whoever
// made it, and may be called by several processes at once. It makes the table only: on logical replication the table must
// also be published, and be there on the subscriber. The user of the pool needs to read and write it.
//
// The only field of m that counts is Table. It blocks until the database has answered or ctx ends.
func CreateMarker(ctx context.Context, db *sql.DB, m Marker) error {
	table, err := marker.NewTable(m.Table)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadConfig, err)
	}
	if _, err := readMarker(ctx, db, table); err == nil {
		return nil
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	number := binary.BigEndian.Uint64(random[:]) | 1
	_, created := db.ExecContext(ctx, table.CreateSQL())
	// Of several processes one makes the table, and one the row with its number.
	_, numbered := db.ExecContext(ctx, table.NumberSQL(number, time.Now()))
	if _, err := readMarker(ctx, db, table); err != nil {
		return fmt.Errorf("readroute: make the marker table %s: %w", table, errors.Join(err, created, numbered))
	}
	return nil
}

// readMarker reads the table on a pool.
func readMarker(ctx context.Context, db *sql.DB, table marker.Table) (rows [][]string, err error) {
	found, err := db.QueryContext(ctx, table.ReadSQL())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	for found.Next() {
		row := make([]string, 3)
		if err := found.Scan(&row[0], &row[1], &row[2]); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	if err := found.Err(); err != nil {
		return nil, err
	}
	_, err = marker.Position(rows)
	return rows, err
}

// PruneMarker deletes, through db, the rows of the marker table that were last moved longer than age ago by the clocks of their
// writers, and returns how many, also beside an error. They are rows of processes that are gone, as a rule; one that still runs takes a new row
// when it writes again. A session whose token names a deleted row reads from the primary until it writes again, so age
// should be longer than tokens live: a day is a good value. A row that was moved less than an hour ago and is deleted all the same passes
// for lost ([EventPositionLost]). For the next probe replicas cannot be measured. age must be positive.
//
// The only field of m that counts is Table. It blocks until the database has answered or ctx ends.
func PruneMarker(ctx context.Context, db *sql.DB, m Marker, age time.Duration) (deleted int64, err error) {
	table, err := marker.NewTable(m.Table)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrBadConfig, err)
	}
	if age <= 0 {
		return 0, fmt.Errorf("%w: PruneMarker: age is %v, it must be positive", ErrBadConfig, age)
	}
	if deleted, err = prune(ctx, db, table, time.Now().Add(-age)); err != nil {
		return deleted, fmt.Errorf("readroute: prune the marker table %s: %w", table, err)
	}
	return deleted, nil
}

func prune(ctx context.Context, db *sql.DB, table marker.Table, before time.Time) (deleted int64, err error) {
	writers, err := readColumn(ctx, db, table.OldSQL(before))
	if err != nil {
		return 0, err
	}
	for _, writer := range writers {
		text := table.ForgetSQL(writer, before)
		if text == "" {
			continue
		}
		result, err := db.ExecContext(ctx, text)
		if err != nil {
			return deleted, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return deleted, err
		}
		deleted += n
	}
	return deleted, nil
}

func readColumn(ctx context.Context, db *sql.DB, query string) (column []string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		column = append(column, value)
	}
	return column, rows.Err()
}

// mark has the engine that was made for the servers read their positions in the marker table, if there is one.
func (db *DB) mark(family family) error {
	if db.config.Marker == nil {
		return nil
	}
	options, err := db.config.Marker.options()
	if err != nil {
		return err
	}
	db.engine.Through(
		func(e engine.Engine) engine.Engine { return marker.New(e, options) },
		func(ctx context.Context, link monitor.Link, refusal error) (engine.Engine, error) {
			if family == familyMySQL && errors.Is(refusal, engine.ErrUnsupported) {
				return mysql.Engine{}, nil // it speaks the protocol and lacks the positions
			}
			return marker.Detect(ctx, link, refusal)
		})
	if !db.config.Strategy.core(0).Sticky {
		db.marking = marker.Marking{Writers: options.Writers, Dialect: func() sqlclass.Dialect {
			if e := db.engine.Engine(); e != nil {
				return e.Dialect()
			}
			return 0
		}}
	}
	return nil
}

// at returns the engine for node i.
func (db *DB) at(i int) vconn.Engine {
	if db.config.Marker == nil {
		return db.engine
	}
	return marker.At(db.engine, i)
}
