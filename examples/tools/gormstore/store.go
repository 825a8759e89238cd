// Package gormstore keeps authors and books with GORM. Nothing in it knows of readroute.
package gormstore

import (
	"context"
	"database/sql"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// Author has many books.
type Author struct {
	ID    int64
	Name  string
	Books []Book
}

// Book belongs to an author.
type Book struct {
	ID       int64
	AuthorID int64
	Title    string
}

// Review has a table that is made later.
type Review struct {
	ID       int64
	AuthorID int64
	Body     string
}

// Store is safe for concurrent use.
type Store struct {
	db *gorm.DB
}

// New makes the tables that are missing. With prepare GORM keeps a prepared statement for each text that it runs. The
// caller closes db.
func New(ctx context.Context, db *sql.DB, prepare bool) (*Store, error) {
	g, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), &gorm.Config{
		PrepareStmt: prepare,
		Logger:      logger.Discard,
	})
	if err != nil {
		return nil, err
	}
	return &Store{db: g}, g.WithContext(ctx).AutoMigrate(&Author{}, &Book{})
}

// Close closes the prepared statements that GORM keeps.
func (s *Store) Close() error {
	if prepared, ok := s.db.ConnPool.(*gorm.PreparedStmtDB); ok {
		prepared.Close()
	}
	return nil
}

// AddAuthor inserts; GORM reads the id by RETURNING.
func (s *Store) AddAuthor(ctx context.Context, name string) (int64, error) {
	a := Author{Name: name}
	err := s.db.WithContext(ctx).Create(&a).Error
	return a.ID, err
}

// RenameAuthor updates, in a transaction that GORM makes.
func (s *Store) RenameAuthor(ctx context.Context, id int64, name string) error {
	return s.db.WithContext(ctx).Model(&Author{ID: id}).Update("name", name).Error
}

// AuthorName reads.
func (s *Store) AuthorName(ctx context.Context, id int64) (string, error) {
	var a Author
	err := s.db.WithContext(ctx).First(&a, id).Error
	return a.Name, err
}

// AuthorNamePrepared reads with a statement that GORM has prepared and keeps.
func (s *Store) AuthorNamePrepared(ctx context.Context, id int64) (string, error) {
	var a Author
	err := s.db.Session(&gorm.Session{PrepareStmt: true, Context: ctx}).Take(&a, id).Error
	return a.Name, err
}

// AddBooks inserts in a transaction and says how many books the author has before it commits.
func (s *Store) AddBooks(ctx context.Context, authorID int64, titles ...string) (int, error) {
	var n int64
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		for _, title := range titles {
			if err := tx.Create(&Book{AuthorID: authorID, Title: title}).Error; err != nil {
				return err
			}
		}
		return tx.Model(&Book{}).Where("author_id = ?", authorID).Count(&n).Error
	})
	return int(n), err
}

// Books reads the author, and then, in a statement of its own, the books.
func (s *Store) Books(ctx context.Context, authorID int64) ([]string, error) {
	var a Author
	err := s.db.WithContext(ctx).Preload("Books", func(db *gorm.DB) *gorm.DB { return db.Order("id") }).First(&a, authorID).Error
	var titles []string
	for _, b := range a.Books {
		titles = append(titles, b.Title)
	}
	return titles, err
}

// AddReviewTable makes one more table, while the program runs.
func (s *Store) AddReviewTable(ctx context.Context) error {
	return s.db.WithContext(ctx).AutoMigrate(&Author{}, &Book{}, &Review{})
}

// AddReview inserts into that table.
func (s *Store) AddReview(ctx context.Context, authorID int64, body string) error {
	return s.db.WithContext(ctx).Create(&Review{AuthorID: authorID, Body: body}).Error
}

// Reviews reads from it.
func (s *Store) Reviews(ctx context.Context, authorID int64) (bodies []string, err error) {
	err = s.db.WithContext(ctx).Model(&Review{}).Where("author_id = ?", authorID).Order("id").Pluck("body", &bodies).Error
	return bodies, err
}
