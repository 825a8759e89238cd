package router

import (
	"context"
	"slices"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// choose takes in which nodes the context asks for, by name or by tag. A node that is asked for by name needs no tag.
func (r *Router) choose(o *core.Options, in *core.Input) error {
	if o.Node != "" {
		i, known := r.names[o.Node]
		if !known {
			return ErrUnknownNode
		}
		in.Node = i
		in.Barred &^= 1 << i
	}
	if o.Tags == nil {
		return nil
	}
	in.Barred = 0
	for _, t := range o.Tags {
		nodes, known := r.tags[t]
		if !known {
			return ErrUnknownTag
		}
		in.Barred |= ^nodes
	}
	return nil
}

// level says which session a statement belongs to whose context has one or none, and what its reads are promised.
func (r *Router) level(session *core.Session, level core.Level) (*core.Session, core.Level) {
	if session == nil && level == core.LevelUnset {
		switch r.cfg.WithoutSession {
		case WithoutSessionPrimary:
		case WithoutSessionEventual:
			level = core.LevelEventual
		case WithoutSessionProcess:
			session = &r.Process
		}
	}
	if level == core.LevelUnset && session != nil {
		level = r.cfg.Level
	}
	return session, level
}

// Remembers reports whether what a read in ctx shows counts for later reads of its session.
func (r *Router) Remembers(ctx context.Context) bool {
	_, level := r.reader(core.FromContext(ctx))
	return level == core.LevelCausal || level == core.LevelGlobal
}

func (r *Router) reader(o *core.Options) (*core.Session, core.Level) {
	if o == nil {
		return r.level(nil, core.LevelUnset)
	}
	return r.level(o.Session, o.Level)
}

// demand is what the primary's position adds to what a read needs.
type demand struct {
	position core.Position
	at       time.Time
}

// add adds it to what the session needs at the moment.
func (a *demand) add(in *core.Input) {
	before := in.Need.Positions
	merged, ok := core.MergePositions(before, a.position)
	switch {
	case !ok:
		in.Need.Until = time.Now().Add(in.Strategy.Window) // of too many histories
	case len(before) == 0 || len(merged) == 1 && merged[0] == a.position:
		in.Need.CapturedAt = a.at
	case len(merged) > 1 || merged[0] != before[0]:
		in.Need.CapturedAt = time.Time{}
	}
	in.Need.Positions = merged
}

// askPrimary finds out what the primary had Bound ago, or has now. It reports whether it could.
func (r *Router) askPrimary(ctx context.Context, in *core.Input, action core.Action, out *demand) bool {
	if action == core.AskSince {
		if p, at, ok := r.Monitor.Since(in.Now.Add(-in.Level.Bound())); ok {
			out.position, out.at = p, at
			return true
		}
	}
	c := r.Captures.Join()
	if !r.waitCapture(ctx, c) {
		return false
	}
	result := c.Result()
	out.position, out.at = result.Position, result.At
	return result.Err == nil && !result.Position.IsZero()
}

// settleFloors makes positions of what the session has read. It reports whether it could in time.
func (r *Router) settleFloors(ctx context.Context, session *core.Session) bool {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CaptureTimeout)
	defer cancel()
	return session.Settle(ctx, r.cfg.Cluster, r.cfg.Strategy.Window) == nil
}

// date finds the timeline of a position that a replica does not tell to this user: a primary that is seen on it after the
// replica leaves no room for a promotion in between.
func (r *Router) date(ctx context.Context, p core.Position, floor uint32) (core.Position, error) {
	c := r.Captures.Join()
	if err := c.Wait(ctx); err != nil {
		return p, err
	}
	primary := c.Result().Position
	if primary.System != p.System || primary.Timeline != floor {
		return p, core.ErrFloorGone
	}
	p.Timeline = primary.Timeline
	return p, nil
}

// aheadPatience is how long a read waits at most for the primary to show what a replica has shown already. Between the log and
// the moment at which a commit is seen lie microseconds, unless the primary waits for replicas.
const aheadPatience = 10 * time.Millisecond

// Between two questions of a read that waits for that lies aheadPoll at first and twice as much each time, up to aheadPollMax: the
// primary is not kept busy with them.
const (
	aheadPoll    = 100 * time.Microsecond
	aheadPollMax = 2 * time.Millisecond
)

// pauseAhead waits before question try, which counts from 1. It reports whether there is time for it.
func pauseAhead(ctx context.Context, try int) bool {
	timer := time.NewTimer(min(aheadPollMax, aheadPoll<<min(try-1, 10)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// catchUp waits until the primary shows everything that was in its log when it is asked first, which is all that any replica
// has shown so far. A transaction that is still under way after the patience may simply go on: nobody waits for it again, and as
// long as it does a read may see less than a replica has shown, which is said of each.
func (r *Router) catchUp(ctx context.Context, session *core.Session) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CaptureTimeout)
	defer cancel()
	var waiting, going []string
	marked := r.marked()
	if marked && r.catchUpMarkers(ctx, session, began) {
		return
	}
	for try := 0; !marked; try++ {
		if try > 0 && !pauseAhead(ctx, try) {
			break
		}
		c := r.Captures.JoinCommitting()
		if c.Wait(ctx) != nil {
			break
		}
		committing := c.Result().Committing
		if try == 0 {
			waiting, going = r.underWay(committing)
		} else {
			gone := func(x string) bool { return !slices.Contains(committing, x) }
			waiting, going = slices.DeleteFunc(waiting, gone), slices.DeleteFunc(going, gone)
		}
		// MariaDB does not tell what it is committing: by the second answer it has gone on.
		if len(waiting) == 0 && (try > 0 || c.Result().Position.Kind != core.KindMariaDB) {
			if len(going) > 0 {
				break
			}
			session.Shown(r.cfg.Cluster, began)
			return
		}
		if try > 0 && time.Since(began) > aheadPatience {
			r.goOn.Store(&committing)
			break
		}
	}
	if r.cfg.OnAhead != nil {
		r.cfg.OnAhead()
	}
}

// catchUpFor is catchUp for a statement that goes to the primary whatever its session needs, where that may read: a transaction, or
// what needs session state. It returns how long that took.
func (r *Router) catchUpFor(ctx context.Context, o *core.Options, req *Request) time.Duration {
	if req.Dry || req.Class == core.ClassWrite && req.Held != core.HeldTx || req.Class == core.ClassTxControl && req.Held == core.HeldTx {
		return 0 // the log has it after all that was read, or it ends a transaction
	}
	session, level := r.reader(o)
	if session == nil || level != core.LevelCausal && level != core.LevelGlobal {
		return 0
	}
	var need core.Need
	if session.ViewTo(r.cfg.Cluster, now, &need); !need.AheadOf() {
		return 0
	}
	began := time.Now()
	r.catchUp(ctx, session)
	return time.Since(began)
}

// underWay parts transactions into those that are to be waited for, and those that others have waited for in vain.
func (r *Router) underWay(committing []string) (waiting, going []string) {
	known := r.goOn.Load()
	for _, x := range committing {
		if known != nil && slices.Contains(*known, x) {
			going = append(going, x)
		} else {
			waiting = append(waiting, x)
		}
	}
	return waiting, going
}

// Place returns how sessions remember node i.
func (r *Router) Place(i int) *core.Place { return &r.places[i] }
