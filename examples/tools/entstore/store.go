// Package entstore keeps authors and books with ent. Nothing in it knows of readroute. The folder ent is generated.
package entstore

import (
	"context"
	"database/sql"
	"errors"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"entgo.io/ent/dialect/sql/schema"

	"github.com/readroute/readroute/examples/tools/entstore/ent"
	"github.com/readroute/readroute/examples/tools/entstore/ent/author"
	"github.com/readroute/readroute/examples/tools/entstore/ent/book"
	"github.com/readroute/readroute/examples/tools/entstore/ent/migrate"
	"github.com/readroute/readroute/examples/tools/entstore/ent/review"
)

//go:generate go run -mod=mod entgo.io/ent/cmd/ent generate --target ./ent ./schema

// Store is safe for concurrent use.
type Store struct {
	client *ent.Client
}

// New makes the tables that are missing. The caller closes db.
func New(ctx context.Context, db *sql.DB) (*Store, error) {
	client := ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, db)))
	first := []*schema.Table{migrate.AuthorsTable, migrate.BooksTable}
	return &Store{client: client}, migrate.Create(ctx, client.Schema, first)
}

// Close has nothing to close: (*ent.Client).Close closes the pool, which is the caller's.
func (s *Store) Close() error { return nil }

// AddAuthor inserts; ent reads the id by RETURNING.
func (s *Store) AddAuthor(ctx context.Context, name string) (int64, error) {
	a, err := s.client.Author.Create().SetName(name).Save(ctx)
	if err != nil {
		return 0, err
	}
	return a.ID, nil
}

// RenameAuthor updates and reads the row again, in a transaction that ent makes.
func (s *Store) RenameAuthor(ctx context.Context, id int64, name string) error {
	return s.client.Author.UpdateOneID(id).SetName(name).Exec(ctx)
}

// AuthorName reads.
func (s *Store) AuthorName(ctx context.Context, id int64) (string, error) {
	a, err := s.client.Author.Get(ctx, id)
	if err != nil {
		return "", err
	}
	return a.Name, nil
}

// AddBooks inserts in a transaction and says how many books the author has before it commits.
func (s *Store) AddBooks(ctx context.Context, authorID int64, titles ...string) (n int, err error) {
	tx, err := s.client.Tx(ctx)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	for _, title := range titles {
		if err := tx.Book.Create().SetTitle(title).SetAuthorID(authorID).Exec(ctx); err != nil {
			return 0, err
		}
	}
	if n, err = tx.Book.Query().Where(book.HasAuthorWith(author.ID(authorID))).Count(ctx); err != nil {
		return 0, err
	}
	return n, tx.Commit()
}

// Books reads the author, and then, in a statement of its own, the books.
func (s *Store) Books(ctx context.Context, authorID int64) ([]string, error) {
	a, err := s.client.Author.Query().Where(author.ID(authorID)).
		WithBooks(func(q *ent.BookQuery) { q.Order(ent.Asc(book.FieldID)) }).Only(ctx)
	if err != nil {
		return nil, err
	}
	var titles []string
	for _, b := range a.Edges.Books {
		titles = append(titles, b.Title)
	}
	return titles, nil
}

// AddReviewTable makes one more table, while the program runs.
func (s *Store) AddReviewTable(ctx context.Context) error { return s.client.Schema.Create(ctx) }

// AddReview inserts into that table.
func (s *Store) AddReview(ctx context.Context, authorID int64, body string) error {
	return s.client.Review.Create().SetAuthorID(authorID).SetBody(body).Exec(ctx)
}

// Reviews reads from it.
func (s *Store) Reviews(ctx context.Context, authorID int64) ([]string, error) {
	return s.client.Review.Query().Where(review.AuthorID(authorID)).Order(ent.Asc(review.FieldID)).
		Select(review.FieldBody).Strings(ctx)
}
