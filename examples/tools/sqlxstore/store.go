// Package sqlxstore keeps authors and books with sqlx. Nothing in it knows of readroute.
package sqlxstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"
)

const schema = `
CREATE TABLE IF NOT EXISTS authors (id bigserial PRIMARY KEY, name text NOT NULL);
CREATE TABLE IF NOT EXISTS books (id bigserial PRIMARY KEY, author_id bigint NOT NULL REFERENCES authors, title text NOT NULL);`

const reviews = `
CREATE TABLE IF NOT EXISTS reviews (id bigserial PRIMARY KEY, author_id bigint NOT NULL REFERENCES authors, body text NOT NULL)`

type book struct {
	ID       int64
	AuthorID int64 `db:"author_id"`
	Title    string
}

// Store is safe for concurrent use.
type Store struct {
	db         *sqlx.DB
	authorName *sqlx.Stmt
}

// New makes the tables that are missing. The caller closes db.
func New(ctx context.Context, db *sql.DB) (*Store, error) {
	x := sqlx.NewDb(db, "pgx")
	if _, err := x.ExecContext(ctx, schema); err != nil {
		return nil, err
	}
	authorName, err := x.PreparexContext(ctx, "SELECT name FROM authors WHERE id = $1")
	if err != nil {
		return nil, err
	}
	return &Store{db: x, authorName: authorName}, nil
}

// Close closes the prepared statement.
func (s *Store) Close() error { return s.authorName.Close() }

// AddAuthor inserts, and reads the id that the server gave.
func (s *Store) AddAuthor(ctx context.Context, name string) (id int64, err error) {
	err = s.db.GetContext(ctx, &id, "INSERT INTO authors (name) VALUES ($1) RETURNING id", name)
	return id, err
}

// RenameAuthor updates, with named arguments.
func (s *Store) RenameAuthor(ctx context.Context, id int64, name string) error {
	_, err := s.db.NamedExecContext(ctx, "UPDATE authors SET name = :name WHERE id = :id",
		map[string]any{"id": id, "name": name})
	return err
}

// AuthorName reads.
func (s *Store) AuthorName(ctx context.Context, id int64) (name string, err error) {
	err = s.db.GetContext(ctx, &name, s.db.Rebind("SELECT name FROM authors WHERE id = ?"), id)
	return name, err
}

// AuthorNamePrepared reads with a statement that was prepared once.
func (s *Store) AuthorNamePrepared(ctx context.Context, id int64) (name string, err error) {
	err = s.authorName.GetContext(ctx, &name, id)
	return name, err
}

// AddBooks inserts in a transaction and says how many books the author has before it commits.
func (s *Store) AddBooks(ctx context.Context, authorID int64, titles ...string) (n int, err error) {
	tx, err := s.db.BeginTxx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, ignoreDone(tx.Rollback())) }()
	var books []book
	for _, title := range titles {
		books = append(books, book{AuthorID: authorID, Title: title})
	}
	if _, err := tx.NamedExecContext(ctx, "INSERT INTO books (author_id, title) VALUES (:author_id, :title)", books); err != nil {
		return 0, err
	}
	if err := tx.GetContext(ctx, &n, "SELECT count(*) FROM books WHERE author_id = $1", authorID); err != nil {
		return 0, err
	}
	return n, tx.Commit()
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// Books reads the titles of an author with the author, in one join: sqlx loads no associations.
func (s *Store) Books(ctx context.Context, authorID int64) ([]string, error) {
	var books []book
	err := s.db.SelectContext(ctx, &books,
		"SELECT b.id, b.author_id, b.title FROM authors a JOIN books b ON b.author_id = a.id WHERE a.id = $1 ORDER BY b.id", authorID)
	var titles []string
	for _, b := range books {
		titles = append(titles, b.Title)
	}
	return titles, err
}

// AddReviewTable makes one more table, while the program runs.
func (s *Store) AddReviewTable(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, reviews)
	return err
}

// AddReview inserts into that table.
func (s *Store) AddReview(ctx context.Context, authorID int64, body string) error {
	_, err := s.db.ExecContext(ctx, "INSERT INTO reviews (author_id, body) VALUES ($1, $2)", authorID, body)
	return err
}

// Reviews reads from it.
func (s *Store) Reviews(ctx context.Context, authorID int64) (bodies []string, err error) {
	query, args, err := sqlx.In("SELECT body FROM reviews WHERE author_id IN (?) ORDER BY id", []int64{authorID})
	if err != nil {
		return nil, err
	}
	err = s.db.SelectContext(ctx, &bodies, s.db.Rebind(query), args...)
	return bodies, err
}
