package main

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"

	"github.com/readroute/readroute"
)

// receiptWorker sends receipts.
type receiptWorker struct {
	river.WorkerDefaults[ReceiptArgs]
	db   *readroute.DB
	send func(ctx context.Context, db *readroute.DB, orderID int64) error
}

// Work sends one receipt. It begins with a session of the job's own, and does not end before it has seen whatever the job
// was asked for again while it ran.
func (w *receiptWorker) Work(ctx context.Context, job *river.Job[ReceiptArgs]) error {
	r := request{args: job.Args, asked: asked(job.Metadata)}
	for {
		work := readroute.ContextWithSession(ctx, readroute.NewSession(r.args.Token))
		if r.args.Token.IsZero() || job.Attempt > 1 { // what an earlier attempt has written is in no token
			if err := w.db.Fence(work); err != nil {
				return err
			}
		}
		if err := w.send(work, w.db, r.args.OrderID); err != nil {
			return err
		}
		done, err := w.complete(ctx, job, &r)
		if err != nil || done {
			return err
		}
	}
}

// complete completes the job, unless it was asked for again: then r says for what.
func (w *receiptWorker) complete(ctx context.Context, job *river.Job[ReceiptArgs], r *request) (done bool, err error) {
	tx, err := w.db.PrimaryDB().BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }()
	now, err := lock(ctx, tx, job.ID)
	if err != nil {
		return false, err
	}
	if now.asked != r.asked {
		*r = now
		return false, nil
	}
	if _, err := river.JobCompleteTx[*riverdatabasesql.Driver](ctx, tx, job); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// asked reads how often a job was asked for again before it ran.
func asked(metadata []byte) int {
	var m struct {
		Asked int `json:"asked"`
	}
	_ = json.Unmarshal(metadata, &m) // River's own JSON
	return m.Asked
}

var _ river.Worker[ReceiptArgs] = (*receiptWorker)(nil)

// newQueue returns a client of the queue on the primary. It works jobs when there is a worker.
func newQueue(db *readroute.DB, worker *receiptWorker, edit func(*river.Config)) (*river.Client[*sql.Tx], error) {
	config := &river.Config{}
	if worker != nil {
		workers := river.NewWorkers()
		if err := river.AddWorkerSafely(workers, worker); err != nil {
			return nil, err
		}
		config.Workers = workers
		config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 8}}
	}
	if edit != nil {
		edit(config)
	}
	return river.NewClient(riverdatabasesql.New(db.PrimaryDB()), config)
}
