package core

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// Place is a node that reads come from, as a session remembers it.
type Place struct {
	Node int
	// Newest returns the newest sample of the node. The caller must not change it.
	Newest func() *Sample
	// After returns a capture of what the node shows that begins after the call. Its Position is the sample's Saw.
	After func() *Capture
	// Primary returns a capture of the primary that begins after the call.
	Primary func() *Capture
	// Date fills in the timeline of a position whose server does not tell it, and that is on floor or past it.
	Date func(ctx context.Context, p Position, floor uint32) (Position, error)
}

// Floor is what a session has read on one run of one server and has not made a position of: all that was shown there until
// some moment. While the session stays there nothing has to be asked, since what a server shows only grows, unless it crashes. A
// crash may leave the server's start as it was, but no connection: one that was open before that moment, and still is,
// proves that there was none.
type Floor struct {
	Place   *Place
	Start   Start
	Primary bool         // it was the primary then
	until   atomic.Int64 // see moment
}

var epoch = time.Now()

// moment is a time as a number that only grows.
func moment(t time.Time) int64 { return int64(t.Sub(epoch)) }

// extend moves the floor forward.
func (f *Floor) extend(until int64) {
	for {
		old := f.until.Load()
		if until <= old || f.until.CompareAndSwap(old, until) {
			return
		}
	}
}

func (c *clusterState) floorOn(place *Place, start Start) *Floor {
	if c == nil {
		return nil
	}
	for _, f := range c.floors {
		if f.Place == place && f.Start == start {
			return f
		}
	}
	return nil
}

// Lived reports whether a connection that was opened at opened, and works, proves that the server still shows all that the
// floor stands for: it was there before, or the one of sample was, which has answered since.
func (f *Floor) Lived(opened time.Time, sample *Sample) bool {
	until := f.until.Load()
	if moment(opened) < until {
		return true
	}
	return sample.Start == f.Start && !sample.Since.IsZero() && moment(sample.Since) < until && sample.Began.After(opened)
}

// AheadOf reports whether the session may have read on a replica what reads on the primary do not show yet: a commit is in the
// log, and with it on its way to replicas, before it can be seen.
func (n *Need) AheadOf() bool {
	return n.Ahead || slices.ContainsFunc(n.Floors, func(f *Floor) bool { return f.ahead(n.shown) })
}

// ahead reports whether the floor may be of what the primary, which shows what replicas had shown until a moment, does not show.
func (f *Floor) ahead(shown time.Time) bool {
	return !f.Primary && (shown.IsZero() || f.until.Load() > moment(shown))
}

// Shown records that the primary has been found to show all that the session has read on replicas until a moment. Another replica
// may lack it all the same: the floors stay.
func (s *Session) Shown(cluster string, until time.Time) {
	s.update(cluster, func(c clusterState) clusterState {
		c.ahead, c.shown = false, later(c.shown, until)
		return c
	})
}

// Saw records a read that ended at now on a run of the server of place, which was the primary then or was not.
func (s *Session) Saw(cluster string, place *Place, start Start, primary bool, now time.Time) {
	until := moment(now)
	if f := s.state.Load().find(cluster).floorOn(place, start); f != nil {
		f.extend(until)
		if s.state.Load().find(cluster).floorOn(place, start) == f {
			return // whoever takes it out from now on sees how far it has moved
		}
	}
	s.update(cluster, func(c clusterState) clusterState {
		if f := c.floorOn(place, start); f != nil {
			f.extend(until)
			return c
		}
		f := &Floor{Place: place, Start: start, Primary: primary}
		f.until.Store(until)
		c.floors = append(slices.Clone(c.floors), f)
		return c
	})
}

// ErrFloorGone says that a server which a session has read from is another one, or another run, or does not tell what was read.
var ErrFloorGone = errors.New("readroute: the server that the session has read from cannot say any more what it showed")

// Settle makes positions of what the session has read: first of what the newest samples tell, else the nodes are asked, until
// ctx ends. What no server can tell any more holds the session to the primary for window, and to what the primary has then.
func (s *Session) Settle(ctx context.Context, cluster string, window time.Duration) error {
	for {
		c := s.state.Load().find(cluster)
		if c == nil || len(c.floors) == 0 {
			return nil
		}
		f := c.floors[0]
		until := f.until.Load()
		p, at, err := f.position(ctx, until)
		switch {
		case errors.Is(err, ErrFloorGone):
			p = Position{} // also one whose timeline nobody can tell
		case err != nil:
			return err
		}
		var primary *Capture
		if p.IsZero() {
			primary = f.Place.Primary()
		}
		s.update(cluster, func(c clusterState) clusterState { return c.settle(f, p, at, time.Now(), window, primary) })
		if f.until.Load() > until {
			// A read has moved it while it was taken out.
			s.Saw(cluster, f.Place, f.Start, f.Primary, epoch.Add(time.Duration(f.until.Load())))
		}
	}
}

// position returns what the floor stands for, a position read after it on the same run of the server, and when it was read.
func (f *Floor) position(ctx context.Context, until int64) (p Position, at time.Time, err error) {
	if sample := f.Place.Newest(); sample.Start == f.Start && moment(sample.Began) > until && moment(sample.Since) < until {
		if p := sample.Saw(); !p.IsZero() {
			p, err = f.dated(ctx, p, sample.TimelineFloor)
			return p, sample.Ended, err
		}
	}
	capture := f.Place.After()
	if err := capture.Wait(ctx); err != nil {
		return Position{}, at, err
	}
	r := capture.Result()
	if r.Start != f.Start || r.Position.IsZero() || moment(r.Since) >= until {
		return Position{}, at, ErrFloorGone
	}
	p, err = f.dated(ctx, r.Position, r.TimelineFloor)
	return p, r.At, err
}

// settle takes a floor out and puts its position in; where there is none, the primary, and the capture of what it has.
func (c clusterState) settle(f *Floor, p Position, at, now time.Time, window time.Duration, primary *Capture) clusterState {
	i := slices.Index(c.floors, f)
	if i < 0 {
		return c
	}
	c.floors = slices.Delete(slices.Clone(c.floors), i, i+1)
	c.ahead = c.ahead || f.ahead(c.shown)
	until := now.Add(window)
	if p.IsZero() {
		c.entry.Until, c.gone = later(c.entry.Until, until), until
		return c.add(pending{capture: primary, window: window, anybody: true}, now)
	}
	merged, ok := MergePositions(c.entry.Positions, p)
	if !ok {
		c.entry.Until, c.gone = later(c.entry.Until, until), until
		return c
	}
	switch {
	case slices.Equal(merged, c.entry.Positions):
	case len(merged) == 1 && merged[0] == p:
		c.captured = at
	default:
		c.captured = time.Time{}
	}
	c.entry.Positions = merged
	return c
}

// dated returns a position that can be compared.
func (f *Floor) dated(ctx context.Context, p Position, floor uint32) (Position, error) {
	if p.Kind != KindPostgres || p.Timeline != 0 {
		return p, nil
	}
	return f.Place.Date(ctx, p, floor)
}

// Fence makes the session need all that the primary has when capture is read, whoever wrote it.
// window is how long the primary is asked for when that is never known.
func (s *Session) Fence(cluster string, now time.Time, capture *Capture, window time.Duration) {
	s.update(cluster, func(c clusterState) clusterState {
		return c.add(pending{capture: capture, window: window, fence: true}, now)
	})
}
