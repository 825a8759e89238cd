package check

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Recorder writes a history down while it happens. It is safe for concurrent use.
type Recorder struct {
	began time.Time

	mu    sync.Mutex
	h     History // guarded by mu
	reads int     // guarded by mu
}

// NewRecorder returns a recorder of a history that begins now.
func NewRecorder() *Recorder { return &Recorder{began: time.Now()} }

// Since is the time of a moment in the history.
func (r *Recorder) Since(t time.Time) time.Duration { return t.Sub(r.began) }

// Now is the time in the history.
func (r *Recorder) Now() time.Duration { return time.Since(r.began) }

// Begin writes down that an operation begins, and returns its ID.
func (r *Recorder) Begin(o Op) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	o.ID, o.Begin = len(r.h.Ops), r.Now()
	if o.Asked == 0 {
		o.Asked = o.Begin
	}
	r.h.Ops = append(r.h.Ops, o)
	return o.ID
}

// End writes down how an operation has ended: with what outcome, and error, and what it saw.
func (r *Recorder) End(id int, outcome Outcome, err error, saw ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &r.h.Ops[id]
	o.End, o.Outcome, o.Saw = r.Now(), outcome, slices.Clone(saw)
	if err != nil {
		o.Err = err.Error()
	}
	if o.Kind == Read && outcome == OK {
		r.reads++
	}
}

// Reads is how many reads have shown something so far.
func (r *Recorder) Reads() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads
}

// Route writes down where a statement of an operation went.
func (r *Recorder) Route(id int, route Route) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id >= 0 && id < len(r.h.Ops) {
		r.h.Ops[id].Routes = append(r.h.Ops[id].Routes, route)
	}
}

// Report writes down that a loss was reported now.
func (r *Recorder) Report() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Reports = append(r.h.Reports, r.Now())
}

// Ahead writes down that it was reported now that a read may be behind what its session has seen.
func (r *Recorder) Ahead() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Ahead = append(r.h.Ahead, r.Now())
}

// Truth changes what is known of the servers. f must not call the recorder.
func (r *Recorder) Truth(f func(h *History)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.h)
}

// History returns what was written down. Nothing may be written down any more.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &r.h
}

type opKey struct{}

// NewContext returns a context that says which operation its statements belong to.
func NewContext(ctx context.Context, id int) context.Context {
	return context.WithValue(ctx, opKey{}, id)
}

// FromContext returns the operation of a context.
func FromContext(ctx context.Context) (id int, ok bool) {
	id, ok = ctx.Value(opKey{}).(int)
	return id, ok
}
