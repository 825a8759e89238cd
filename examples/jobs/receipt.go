package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/readroute/readroute"
)

// ReceiptArgs is the payload of a job that sends the receipt of an order. There is one job an order at a time.
type ReceiptArgs struct {
	OrderID int64 `json:"order_id" river:"unique"`
	// Token is what the worker must be able to see. The zero Token means that nobody could know: the worker fences.
	Token readroute.Token `json:"token,omitzero"`
}

// Kind implements river.JobArgs.
func (ReceiptArgs) Kind() string { return "receipt" }

// InsertOpts implements river.JobArgsWithInsertOpts. A job that is completed does not stand in for a new one.
func (ReceiptArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning, rivertype.JobStateRetryable,
		rivertype.JobStateScheduled,
	}}}
}

// receipts puts receipts into the queue.
type receipts struct {
	db    *readroute.DB
	queue *river.Client[*sql.Tx]
}

// within inserts the job in the transaction that it is about, so that there is never one without the other. Its position
// cannot be known yet: the commit comes after everything in the transaction.
func (r *receipts) within(ctx context.Context, tx *sql.Tx, orderID int64) error {
	return r.insert(ctx, tx, ReceiptArgs{OrderID: orderID})
}

// after inserts the job when the session of ctx has committed, with the session's token. Between the two the process may
// die, and the job with it.
func (r *receipts) after(ctx context.Context, orderID int64) error {
	// An error says why the token asks for the primary for a while; it is good all the same.
	token, _ := readroute.SessionFrom(ctx).Token(ctx)
	tx, err := r.db.PrimaryDB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := r.insert(ctx, tx, ReceiptArgs{OrderID: orderID, Token: token}); err != nil {
		return err
	}
	return tx.Commit()
}

// insert inserts the job, or makes the one that is there already need what the new one would.
func (r *receipts) insert(ctx context.Context, tx *sql.Tx, args ReceiptArgs) error {
	for {
		inserted, err := r.queue.InsertTx(ctx, tx, args, nil)
		if err != nil || !inserted.UniqueSkippedAsDuplicate {
			return err
		}
		open, err := widen(ctx, tx, inserted.Job.ID, args.Token)
		if err != nil || open {
			return err
		}
		// It was completed meanwhile, and stands in for nothing.
	}
}

// widen makes a job that is not finished need what token asks for as well. The lock makes it wait for a worker that is
// about to complete the job.
func widen(ctx context.Context, tx *sql.Tx, jobID int64, token readroute.Token) (open bool, err error) {
	r, err := lock(ctx, tx, jobID)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if token.IsZero() || r.args.Token.IsZero() {
		r.args.Token = readroute.Token{} // who fences sees all
	} else {
		r.args.Token = r.args.Token.Merge(token)
	}
	args, err := json.Marshal(r.args)
	if err != nil {
		return false, err
	}
	_, err = tx.ExecContext(ctx, "UPDATE river_job SET args = $2, metadata = jsonb_set(metadata, '{asked}', to_jsonb($3::int)) WHERE id = $1",
		jobID, string(args), r.asked+1)
	return true, err
}

// request is what a job is to do.
type request struct {
	args  ReceiptArgs
	asked int // how often it was asked for again: a worker that has begun looks whether that has changed
}

// lock returns what a job that is not finished is to do, and keeps others from it until tx ends. The error is
// sql.ErrNoRows when it is finished.
func lock(ctx context.Context, tx *sql.Tx, jobID int64) (r request, err error) {
	var args []byte
	err = tx.QueryRowContext(ctx,
		"SELECT args, coalesce((metadata->>'asked')::int, 0) FROM river_job WHERE id = $1 AND finalized_at IS NULL FOR UPDATE",
		jobID).Scan(&args, &r.asked)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(args, &r.args)
}
