// Package goosestore keeps authors and books with database/sql alone; goose makes their tables, under its lock. Nothing
// in it knows of readroute.
package goosestore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var files embed.FS

// Store is safe for concurrent use.
type Store struct {
	db         *sql.DB
	migrations *goose.Provider
	authorName *sql.Stmt
}

// New makes the tables that are missing. The caller closes db.
func New(ctx context.Context, db *sql.DB) (*Store, error) {
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return nil, err
	}
	migrations, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations, goose.WithSessionLocker(locker))
	if err != nil {
		return nil, err
	}
	if _, err := provider.UpTo(ctx, 1); err != nil {
		return nil, err
	}
	authorName, err := db.PrepareContext(ctx, "SELECT name FROM authors WHERE id = $1")
	if err != nil {
		return nil, err
	}
	return &Store{db: db, migrations: provider, authorName: authorName}, nil
}

// Close closes the prepared statement.
func (s *Store) Close() error { return s.authorName.Close() }

// AddAuthor inserts, and reads the id that the server gave.
func (s *Store) AddAuthor(ctx context.Context, name string) (id int64, err error) {
	err = s.db.QueryRowContext(ctx, "INSERT INTO authors (name) VALUES ($1) RETURNING id", name).Scan(&id)
	return id, err
}

// RenameAuthor updates.
func (s *Store) RenameAuthor(ctx context.Context, id int64, name string) error {
	_, err := s.db.ExecContext(ctx, "UPDATE authors SET name = $2 WHERE id = $1", id, name)
	return err
}

// AuthorName reads.
func (s *Store) AuthorName(ctx context.Context, id int64) (name string, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT name FROM authors WHERE id = $1", id).Scan(&name)
	return name, err
}

// AuthorNamePrepared reads with a statement that was prepared once.
func (s *Store) AuthorNamePrepared(ctx context.Context, id int64) (name string, err error) {
	err = s.authorName.QueryRowContext(ctx, id).Scan(&name)
	return name, err
}

// AddBooks inserts in a transaction and says how many books the author has before it commits.
func (s *Store) AddBooks(ctx context.Context, authorID int64, titles ...string) (n int, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() {
		if e := tx.Rollback(); !errors.Is(e, sql.ErrTxDone) {
			err = errors.Join(err, e)
		}
	}()
	for _, title := range titles {
		if _, err := tx.ExecContext(ctx, "INSERT INTO books (author_id, title) VALUES ($1, $2)", authorID, title); err != nil {
			return 0, err
		}
	}
	if err := tx.QueryRowContext(ctx, "SELECT book_count($1)", authorID).Scan(&n); err != nil {
		return 0, err
	}
	return n, tx.Commit()
}

// Books reads the titles of an author.
func (s *Store) Books(ctx context.Context, authorID int64) ([]string, error) {
	return s.texts(ctx, "SELECT title FROM books WHERE author_id = $1 ORDER BY id", authorID)
}

func (s *Store) texts(ctx context.Context, query string, args ...any) (texts []string, err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, rows.Err()
}

// AddReviewTable runs the other migrations, while the program runs.
func (s *Store) AddReviewTable(ctx context.Context) error {
	_, err := s.migrations.Up(ctx)
	return err
}

// AddReview inserts into the new table.
func (s *Store) AddReview(ctx context.Context, authorID int64, body string) error {
	_, err := s.db.ExecContext(ctx, "INSERT INTO reviews (author_id, body) VALUES ($1, $2)", authorID, body)
	return err
}

// Reviews reads from it.
func (s *Store) Reviews(ctx context.Context, authorID int64) ([]string, error) {
	return s.texts(ctx, "SELECT body FROM reviews WHERE author_id = $1 ORDER BY id", authorID)
}
