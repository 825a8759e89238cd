package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// A store keeps authors, their books, and reviews of them. Every tool has one.
type store interface {
	AddAuthor(ctx context.Context, name string) (id int64, err error)
	RenameAuthor(ctx context.Context, id int64, name string) error
	AuthorName(ctx context.Context, id int64) (string, error)
	AddBooks(ctx context.Context, authorID int64, titles ...string) (int, error)
	Books(ctx context.Context, authorID int64) ([]string, error)
	AddReviewTable(ctx context.Context) error
	AddReview(ctx context.Context, authorID int64, body string) error
	Reviews(ctx context.Context, authorID int64) ([]string, error)
	Close() error
}

// A preparer is a store whose tool has prepared statements.
type preparer interface {
	AuthorNamePrepared(ctx context.Context, id int64) (string, error)
}

// errUnseen is what a step returns when a read did not see what was written before it.
var errUnseen = errors.New("a read has not seen the write before it")

// A step writes, and reads what it has written.
type step struct {
	name string
	run  func(ctx context.Context, s store) error
	// prepares: only a preparer can do it.
	prepares bool
	// newTable: a read cannot be stale here, because a replica that is behind does not have the table.
	newTable bool
}

var steps = []step{
	{name: "insert returning", run: insertReturning},
	{name: "update", run: update},
	{name: "prepared", run: prepared, prepares: true},
	{name: "transaction", run: transaction},
	{name: "migration", run: migration, newTable: true},
}

// unseen compares what was read with what was written.
func unseen[T any](got T, err error, want T) error {
	if err != nil {
		return fmt.Errorf("%w: %w", errUnseen, err) // no row, or no table
	}
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		return fmt.Errorf("%w: read %q, written %q", errUnseen, g, w)
	}
	return nil
}

func insertReturning(ctx context.Context, s store) error {
	id, err := s.AddAuthor(ctx, "Ada")
	if err != nil {
		return err
	}
	name, err := s.AuthorName(ctx, id)
	return unseen(name, err, "Ada")
}

func update(ctx context.Context, s store) error {
	id, err := s.AddAuthor(ctx, "Ada")
	if err != nil {
		return err
	}
	for _, want := range []string{"it's", `a\b $1 ? -- "x"`, "Ada Lovelace"} {
		if err := s.RenameAuthor(ctx, id, want); err != nil {
			return err
		}
		name, err := s.AuthorName(ctx, id)
		if err := unseen(name, err, want); err != nil {
			return err
		}
	}
	return nil
}

func prepared(ctx context.Context, s store) error {
	p, ok := s.(preparer)
	if !ok {
		return nil
	}
	id, err := s.AddAuthor(ctx, "Ada")
	if err != nil {
		return err
	}
	for _, want := range []string{"Ada", "Ada Lovelace"} {
		if err := s.RenameAuthor(ctx, id, want); err != nil {
			return err
		}
		name, err := p.AuthorNamePrepared(ctx, id)
		if err := unseen(name, err, want); err != nil {
			return err
		}
	}
	return nil
}

func transaction(ctx context.Context, s store) error {
	id, err := s.AddAuthor(ctx, "Ada")
	if err != nil {
		return err
	}
	titles := []string{"Notes", "More Notes"}
	n, err := s.AddBooks(ctx, id, titles...)
	if err := unseen(n, err, len(titles)); err != nil {
		return err
	}
	read, err := s.Books(ctx, id)
	return unseen(read, err, slices.Clone(titles))
}

func migration(ctx context.Context, s store) error {
	id, err := s.AddAuthor(ctx, "Ada")
	if err != nil {
		return err
	}
	if err := s.AddReviewTable(ctx); err != nil {
		return err
	}
	none, err := s.Reviews(ctx, id)
	if err := unseen(len(none), err, 0); err != nil {
		return err
	}
	if err := s.AddReview(ctx, id, "good"); err != nil {
		return err
	}
	read, err := s.Reviews(ctx, id)
	return unseen(read, err, []string{"good"})
}
