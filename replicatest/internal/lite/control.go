package lite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
)

// native is a connection of the SQLite driver, as far as it is used here.
type native interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// openNative opens a connection to the database in a file. Nobody writes the log back into the database but its server.
func openNative(ctx context.Context, path string, queryOnly bool) (native, error) {
	options := url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(wal)", "synchronous(off)", "wal_autocheckpoint(0)"},
		"_txlock": {"immediate"},
	}
	if queryOnly {
		options.Add("_pragma", "query_only(1)")
	}
	connector, err := sqlite.NewConnector("file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?" + options.Encode())
	if err != nil {
		return nil, err
	}
	conn, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	n, ok := conn.(native)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a connection of type %T cannot do what is needed of it", conn), conn.Close())
	}
	return n, nil
}

// control is a server's own connection to its database, to write what has been replicated and to read it whole. It is for one
// goroutine at a time.
type control struct {
	native
	write driver.Stmt
}

// openControl opens it on a new database. It has to have written something: a connection that has not does not count as one that keeps
// the log from being removed when all others close.
func openControl(path string) (*control, error) {
	n, err := openNative(context.Background(), path, false)
	if err != nil {
		return nil, err
	}
	c := &control{native: n}
	if err := c.exec("PRAGMA user_version = 0"); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *control) exec(query string, args ...driver.Value) error {
	named := make([]driver.NamedValue, len(args))
	for i, a := range args {
		named[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	_, err := c.ExecContext(context.Background(), query, named)
	return err
}

// rows calls each with every row of a query.
func (c *control) rows(query string, each func(row []driver.Value)) error {
	rows, err := c.QueryContext(context.Background(), query, nil)
	if err != nil {
		return err
	}
	row := make([]driver.Value, len(rows.Columns()))
	for err == nil {
		if err = rows.Next(row); err == nil {
			each(row)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, rows.Close())
}

// pageCount returns the size of the database in pages.
func (c *control) pageCount() (size uint32, err error) {
	err = c.rows("PRAGMA page_count", func(row []driver.Value) {
		if n, ok := row[0].(int64); ok {
			size = uint32(n)
		}
	})
	return size, err
}

// inTx runs f in a transaction that nobody writes beside.
func (c *control) inTx(commit bool, f func() error) error {
	if err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := f()
	if err == nil && commit {
		err = c.exec("COMMIT")
	}
	if err != nil || !commit {
		if undone := c.exec("ROLLBACK"); err != nil && !strings.Contains(fmt.Sprint(undone), "no transaction") {
			err = errors.Join(err, undone)
		}
	}
	return err
}

// writePages makes the database what a transaction has left it, in one transaction. The first page comes last: with it the schema
// changes, which SQLite looks at again as soon as it does.
func (c *control) writePages(pages []page, size uint32) error {
	return c.inTx(true, func() error {
		have, err := c.pageCount()
		if err == nil && c.write == nil {
			c.write, err = c.PrepareContext(context.Background(), "INSERT INTO sqlite_dbpage (pgno, data) VALUES (?, ?)")
		}
		if err != nil {
			return err
		}
		var first []page
		for _, p := range pages {
			have = max(have, p.number)
			if p.number == 1 {
				first = append(first, p)
			} else if err := c.writePage(p.number, p.data); err != nil {
				return err
			}
		}
		for _, p := range first {
			if err := c.writePage(p.number, p.data); err != nil {
				return err
			}
		}
		if have > size {
			return c.writePage(size+1, nil) // what begins there is cut off
		}
		return nil
	})
}

func (c *control) writePage(number uint32, data driver.Value) error {
	if b, ok := data.([]byte); ok && b == nil {
		data = nil
	}
	_, err := c.write.(driver.StmtExecContext).ExecContext(context.Background(), []driver.NamedValue{
		{Ordinal: 1, Value: int64(number)}, {Ordinal: 2, Value: data},
	})
	return err
}

// readPages reads the whole database.
func (c *control) readPages() (pages []page, err error) {
	err = c.rows("SELECT pgno, data FROM sqlite_dbpage", func(row []driver.Value) {
		number, _ := row[0].(int64)
		data, _ := row[1].([]byte)
		pages = append(pages, page{uint32(number), append([]byte(nil), data...)})
	})
	return pages, err
}

// close closes the connection.
func (c *control) close() error {
	var err error
	if c.write != nil {
		err = c.write.Close()
	}
	return errors.Join(err, c.native.Close())
}
