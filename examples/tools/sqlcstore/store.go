// Package sqlcstore keeps authors and books with code that sqlc has generated, prepared queries included. Nothing in it
// knows of readroute. The folders query and reviews are generated.
package sqlcstore

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"

	"github.com/readroute/readroute/examples/tools/sqlcstore/query"
	"github.com/readroute/readroute/examples/tools/sqlcstore/reviews"
)

//go:generate sqlc generate

var (
	//go:embed schema.sql
	schema string
	//go:embed reviews.sql
	reviewsSchema string
)

// Store is safe for concurrent use.
type Store struct {
	db       *sql.DB
	plain    *query.Queries
	prepared *query.Queries
	reviews  *reviews.Queries
}

// New makes the tables that are missing. The caller closes db.
func New(ctx context.Context, db *sql.DB) (*Store, error) {
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, err
	}
	prepared, err := query.Prepare(ctx, db)
	if err != nil {
		return nil, err
	}
	return &Store{db: db, plain: query.New(db), prepared: prepared, reviews: reviews.New(db)}, nil
}

// Close closes the prepared statements.
func (s *Store) Close() error { return s.prepared.Close() }

// AddAuthor inserts, and reads the id that the server gave.
func (s *Store) AddAuthor(ctx context.Context, name string) (int64, error) {
	return s.plain.AddAuthor(ctx, name)
}

// RenameAuthor updates, with a prepared statement.
func (s *Store) RenameAuthor(ctx context.Context, id int64, name string) error {
	return s.prepared.RenameAuthor(ctx, query.RenameAuthorParams{ID: id, Name: name})
}

// AuthorName reads.
func (s *Store) AuthorName(ctx context.Context, id int64) (string, error) {
	return s.plain.AuthorName(ctx, id)
}

// AuthorNamePrepared reads with a statement that was prepared once.
func (s *Store) AuthorNamePrepared(ctx context.Context, id int64) (string, error) {
	return s.prepared.AuthorName(ctx, id)
}

// AddBooks inserts in a transaction and says how many books the author has before it commits. The statements are the
// prepared ones, taken into the transaction.
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
	q := s.prepared.WithTx(tx)
	for _, title := range titles {
		if _, err := q.AddBook(ctx, query.AddBookParams{AuthorID: authorID, Title: title}); err != nil {
			return 0, err
		}
	}
	count, err := q.CountBooks(ctx, authorID)
	if err != nil {
		return 0, err
	}
	return int(count), tx.Commit()
}

// Books reads the books of an author with the author, in one join.
func (s *Store) Books(ctx context.Context, authorID int64) ([]string, error) {
	rows, err := s.plain.BooksOfAuthor(ctx, authorID)
	var titles []string
	for _, row := range rows {
		titles = append(titles, row.Book.Title)
	}
	return titles, err
}

// AddReviewTable makes one more table, while the program runs.
func (s *Store) AddReviewTable(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, reviewsSchema)
	return err
}

// AddReview inserts into that table.
func (s *Store) AddReview(ctx context.Context, authorID int64, body string) error {
	return s.reviews.AddReview(ctx, reviews.AddReviewParams{AuthorID: authorID, Body: body})
}

// Reviews reads from it.
func (s *Store) Reviews(ctx context.Context, authorID int64) ([]string, error) {
	return s.reviews.Reviews(ctx, authorID)
}
