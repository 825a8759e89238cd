// Package bunstore keeps authors and books with bun. Nothing in it knows of readroute.
package bunstore

import (
	"context"
	"database/sql"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/migrate"
)

// Author has many books.
type Author struct {
	ID    int64 `bun:",pk,autoincrement"`
	Name  string
	Books []*Book `bun:"rel:has-many,join:id=author_id"`
}

// Book belongs to an author.
type Book struct {
	ID       int64 `bun:",pk,autoincrement"`
	AuthorID int64
	Title    string
}

// Review has a table that is made later.
type Review struct {
	ID       int64 `bun:",pk,autoincrement"`
	AuthorID int64
	Body     string
}

// Store is safe for concurrent use.
type Store struct {
	db         *bun.DB
	authorName bun.Stmt
}

// New makes the tables that are missing. The caller closes db.
func New(ctx context.Context, db *sql.DB) (*Store, error) {
	b := bun.NewDB(db, pgdialect.New())
	for _, model := range []any{(*Author)(nil), (*Book)(nil)} {
		if _, err := b.NewCreateTable().Model(model).IfNotExists().Exec(ctx); err != nil {
			return nil, err
		}
	}
	authorName, err := b.PrepareContext(ctx, "SELECT name FROM authors WHERE id = $1")
	if err != nil {
		return nil, err
	}
	return &Store{db: b, authorName: authorName}, nil
}

// Close closes the prepared statement.
func (s *Store) Close() error { return s.authorName.Close() }

// AddAuthor inserts; bun reads the id by RETURNING.
func (s *Store) AddAuthor(ctx context.Context, name string) (int64, error) {
	a := Author{Name: name}
	_, err := s.db.NewInsert().Model(&a).Exec(ctx)
	return a.ID, err
}

// RenameAuthor updates. bun writes arguments into the text: each statement has a text of its own.
func (s *Store) RenameAuthor(ctx context.Context, id int64, name string) error {
	_, err := s.db.NewUpdate().Model(&Author{ID: id, Name: name}).Column("name").WherePK().Exec(ctx)
	return err
}

// AuthorName reads.
func (s *Store) AuthorName(ctx context.Context, id int64) (string, error) {
	a := Author{ID: id}
	err := s.db.NewSelect().Model(&a).WherePK().Scan(ctx)
	return a.Name, err
}

// AuthorNamePrepared reads with a statement that was prepared once.
func (s *Store) AuthorNamePrepared(ctx context.Context, id int64) (name string, err error) {
	err = s.authorName.QueryRowContext(ctx, id).Scan(&name)
	return name, err
}

// AddBooks inserts in a transaction and says how many books the author has before it commits.
func (s *Store) AddBooks(ctx context.Context, authorID int64, titles ...string) (n int, err error) {
	err = s.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		var books []*Book
		for _, title := range titles {
			books = append(books, &Book{AuthorID: authorID, Title: title})
		}
		if _, err := tx.NewInsert().Model(&books).Exec(ctx); err != nil {
			return err
		}
		count, err := tx.NewSelect().Model((*Book)(nil)).Where("author_id = ?", authorID).Count(ctx)
		n = int(count)
		return err
	})
	return n, err
}

// Books reads the author, and then, in a statement of its own, the books.
func (s *Store) Books(ctx context.Context, authorID int64) ([]string, error) {
	a := Author{ID: authorID}
	err := s.db.NewSelect().Model(&a).WherePK().
		Relation("Books", func(q *bun.SelectQuery) *bun.SelectQuery { return q.Order("id") }).Scan(ctx)
	var titles []string
	for _, b := range a.Books {
		titles = append(titles, b.Title)
	}
	return titles, err
}

// AddReviewTable makes one more table, while the program runs, with bun's migrations and their lock.
func (s *Store) AddReviewTable(ctx context.Context) error {
	migrations := migrate.NewMigrations()
	migrations.Add(migrate.Migration{
		Name: "20240101000000",
		Up: func(ctx context.Context, m *migrate.Migrator, _ *migrate.Migration) error {
			_, err := m.DB().NewCreateTable().Model((*Review)(nil)).Exec(ctx)
			return err
		},
	})
	m := migrate.NewMigrator(s.db, migrations)
	if err := m.Init(ctx); err != nil {
		return err
	}
	if err := m.Lock(ctx); err != nil {
		return err
	}
	if _, err := m.Migrate(ctx); err != nil {
		return err
	}
	return m.Unlock(ctx)
}

// AddReview inserts into that table.
func (s *Store) AddReview(ctx context.Context, authorID int64, body string) error {
	_, err := s.db.NewInsert().Model(&Review{AuthorID: authorID, Body: body}).Exec(ctx)
	return err
}

// Reviews reads from it.
func (s *Store) Reviews(ctx context.Context, authorID int64) (bodies []string, err error) {
	err = s.db.NewSelect().Model((*Review)(nil)).Column("body").Where("author_id = ?", authorID).Order("id").Scan(ctx, &bodies)
	return bodies, err
}
