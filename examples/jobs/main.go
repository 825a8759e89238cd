// Jobs shows how a job sees what it is about, on replicas that are late, with River on PostgreSQL: inserted after the
// commit with a token in its payload, or inserted in the transaction that it is about, with a fence in the worker.
//
//	go run . -primary postgres://app@db-a/app -replica postgres://app@db-b/app
//
// It makes River's tables and the table orders. The tests start servers of their own.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/readroute/readroute"
)

func main() {
	primary := flag.String("primary", "", "connection URL of the primary")
	replica := flag.String("replica", "", "connection URL of a replica")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	err := run(ctx, os.Stdout, *primary, *replica)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// orders is how many orders run places in each way.
const orders = 100

func run(ctx context.Context, out io.Writer, primary, replica string) error {
	db, err := readroute.Open(readroute.Config{
		Primary:  readroute.Node{Name: "primary", Connector: readroute.Postgres(primary)},
		Replicas: []readroute.Node{{Name: "replica", Connector: readroute.Postgres(replica)}},
	})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := errors.Join(db.WaitReady(ctx), prepare(ctx, db)); err != nil {
		return err
	}
	var sent, missed atomic.Int64
	worker := &receiptWorker{db: db, send: func(ctx context.Context, db *readroute.DB, orderID int64) error {
		defer sent.Add(1)
		if _, err := item(ctx, db, orderID); errors.Is(err, sql.ErrNoRows) {
			missed.Add(1)
		} else if err != nil {
			return err
		}
		return nil
	}}
	queue, err := newQueue(db, worker, func(c *river.Config) { c.FetchPollInterval = 100 * time.Millisecond })
	if err != nil {
		return err
	}
	if err := queue.Start(ctx); err != nil {
		return err
	}
	shop := &receipts{db: db, queue: queue}
	for range orders {
		if err := errors.Join(shop.place(ctx, true), shop.place(ctx, false)); err != nil {
			return err
		}
	}
	for sent.Load() < 2*orders {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	fmt.Fprintf(out, "%d jobs, half of them with a token and half with a fence; %d missed their order\n", sent.Load(), missed.Load())
	return queue.Stop(ctx)
}

// prepare makes the tables.
func prepare(ctx context.Context, db *readroute.DB) error {
	migrator, err := rivermigrate.New(riverdatabasesql.New(db.PrimaryDB()), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	_, err = db.PrimaryDB().ExecContext(ctx, "CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, item text NOT NULL)")
	return err
}

// place places an order, as a request does, and puts its receipt into the queue in one way or the other.
func (r *receipts) place(ctx context.Context, within bool) error {
	ctx = readroute.WithSession(ctx)
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var id int64
	if err := tx.QueryRowContext(ctx, "INSERT INTO orders (item) VALUES ('tea') RETURNING id").Scan(&id); err != nil {
		return err
	}
	if within {
		if err := r.within(ctx, tx, id); err != nil {
			return err
		}
		return tx.Commit()
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return r.after(ctx, id)
}

// item reads what was ordered: the read that must not come too early.
func item(ctx context.Context, db *readroute.DB, orderID int64) (item string, err error) {
	err = db.QueryRowContext(ctx, "SELECT item FROM orders WHERE id = $1", orderID).Scan(&item)
	return item, err
}
