// Package squirrelstore keeps authors and books with squirrel. Nothing in it knows of readroute.
package squirrelstore

import (
	"context"
	"database/sql"
	"errors"

	sq "github.com/Masterminds/squirrel"
)

const schema = `
CREATE TABLE IF NOT EXISTS authors (id bigserial PRIMARY KEY, name text NOT NULL);
CREATE TABLE IF NOT EXISTS books (id bigserial PRIMARY KEY, author_id bigint NOT NULL REFERENCES authors, title text NOT NULL)`

const reviews = `
CREATE TABLE IF NOT EXISTS reviews (id bigserial PRIMARY KEY, author_id bigint NOT NULL REFERENCES authors, body text NOT NULL)`

// build makes texts with PostgreSQL's placeholders.
var build = sq.StatementBuilder.PlaceholderFormat(sq.Dollar)

// Store is safe for concurrent use.
type Store struct {
	db    *sql.DB
	run   sq.StatementBuilderType
	stmts *sq.StmtCache
}

// New makes the tables that are missing. The caller closes db.
func New(ctx context.Context, db *sql.DB) (*Store, error) {
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, err
	}
	return &Store{db: db, run: build.RunWith(db), stmts: sq.NewStmtCache(db)}, nil
}

// Close closes the statements that the cache keeps.
func (s *Store) Close() error { return s.stmts.Clear() }

// AddAuthor inserts, and reads the id that the server gave.
func (s *Store) AddAuthor(ctx context.Context, name string) (id int64, err error) {
	err = s.run.Insert("authors").Columns("name").Values(name).Suffix("RETURNING id").QueryRowContext(ctx).Scan(&id)
	return id, err
}

// RenameAuthor updates.
func (s *Store) RenameAuthor(ctx context.Context, id int64, name string) error {
	_, err := s.run.Update("authors").Set("name", name).Where(sq.Eq{"id": id}).ExecContext(ctx)
	return err
}

// AuthorName reads.
func (s *Store) AuthorName(ctx context.Context, id int64) (name string, err error) {
	err = s.run.Select("name").From("authors").Where(sq.Eq{"id": id}).QueryRowContext(ctx).Scan(&name)
	return name, err
}

// AuthorNamePrepared reads with a statement that squirrel has prepared and keeps.
func (s *Store) AuthorNamePrepared(ctx context.Context, id int64) (name string, err error) {
	err = build.RunWith(s.stmts).Select("name").From("authors").Where(sq.Eq{"id": id}).QueryRowContext(ctx).Scan(&name)
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
	insert := build.RunWith(tx).Insert("books").Columns("author_id", "title")
	for _, title := range titles {
		insert = insert.Values(authorID, title)
	}
	if _, err := insert.ExecContext(ctx); err != nil {
		return 0, err
	}
	count := build.RunWith(tx).Select("count(*)").From("books").Where(sq.Eq{"author_id": authorID})
	if err := count.QueryRowContext(ctx).Scan(&n); err != nil {
		return 0, err
	}
	return n, tx.Commit()
}

// Books reads the titles of an author with the author, in one join: squirrel loads no associations.
func (s *Store) Books(ctx context.Context, authorID int64) ([]string, error) {
	return s.texts(ctx, s.run.Select("b.title").From("authors a").Join("books b ON b.author_id = a.id").
		Where(sq.Eq{"a.id": authorID}).OrderBy("b.id"))
}

func (s *Store) texts(ctx context.Context, query sq.SelectBuilder) (texts []string, err error) {
	rows, err := query.QueryContext(ctx)
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

// AddReviewTable makes one more table, while the program runs.
func (s *Store) AddReviewTable(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, reviews)
	return err
}

// AddReview inserts into that table.
func (s *Store) AddReview(ctx context.Context, authorID int64, body string) error {
	_, err := s.run.Insert("reviews").Columns("author_id", "body").Values(authorID, body).ExecContext(ctx)
	return err
}

// Reviews reads from it.
func (s *Store) Reviews(ctx context.Context, authorID int64) ([]string, error) {
	return s.texts(ctx, s.run.Select("body").From("reviews").Where(sq.Eq{"author_id": authorID}).OrderBy("id"))
}
