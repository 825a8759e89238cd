package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/mysql"
	"github.com/readroute/readroute/internal/postgres"
	"github.com/readroute/readroute/internal/vconn"
)

// ErrMixed is matched by the error for a server of another kind than the cluster's.
var ErrMixed = errors.New("readroute: a cluster cannot mix kinds of servers")

// Found is the engine of a cluster whose kind the first server that is asked tells. Every later one is held to it. Until
// then it knows next to nothing, and errs on the side of care. It is safe for concurrent use.
type Found struct {
	known   atomic.Pointer[Engine]
	mu      sync.Mutex   // one at a time decides
	settled func(Engine) // called once, before the engine is used

	// as and otherwise are those of Through; nil when it was not called.
	as        func(Engine) Engine
	otherwise func(ctx context.Context, link monitor.Link, refusal error) (Engine, error)
}

// Through has every engine used through another, and otherwise find one for a server that Detect finds none for. It must be
// called before the engine is used.
func (f *Found) Through(as func(Engine) Engine, otherwise func(ctx context.Context, link monitor.Link, refusal error) (Engine, error)) {
	f.as, f.otherwise = as, otherwise
	if e := f.Engine(); e != nil {
		e = as(e)
		f.known.Store(&e)
	}
}

// detect is Detect with what Through says.
func (f *Found) detect(ctx context.Context, link monitor.Link) (Engine, error) {
	e, err := Detect(ctx, link)
	if err != nil && f.otherwise != nil {
		e, err = f.otherwise(ctx, link, err)
	}
	if err == nil && f.as != nil {
		e = f.as(e)
	}
	return e, err
}

var _ vconn.Engine = (*Found)(nil)

// Find returns an engine that has to be found. settled is called once, when it is known, by whoever found it.
func Find(settled func(Engine)) *Found { return &Found{settled: settled} }

// Known returns an engine that is e.
func Known(e Engine) *Found {
	f := &Found{settled: func(Engine) {}}
	f.known.Store(&e)
	return f
}

// Engine returns the engine, or nil while it is not known.
func (f *Found) Engine() Engine {
	if e := f.known.Load(); e != nil {
		return *e
	}
	return nil
}

// Name is the kind's name; empty while it is not known.
func (f *Found) Name() string {
	if e := f.Engine(); e != nil {
		return e.Name()
	}
	return ""
}

// find returns the engine, and asks the server for it when nobody has yet.
func (f *Found) find(ctx context.Context, link monitor.Link) (Engine, error) {
	if e := f.Engine(); e != nil {
		return e, nil
	}
	e, err := f.detect(ctx, link)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.Engine(); e != nil {
		return e, nil // the next question tells whether this server is of that kind
	}
	f.settled(e)
	f.known.Store(&e)
	return e, nil
}

// Ask implements monitor.Engine. A server that cannot answer is asked whether it is of another kind.
func (f *Found) Ask(ctx context.Context, link monitor.Link) (core.Sample, error) {
	e, err := f.find(ctx, link)
	if err != nil {
		return core.Sample{}, err
	}
	s, err := e.Ask(ctx, link)
	if err == nil || !answered(err) {
		return s, err
	}
	if other, detected := f.detect(ctx, link); detected == nil && other != e {
		return core.Sample{}, fmt.Errorf("%w: this one is %s, and the first that was asked %s", ErrMixed, other.Name(), e.Name())
	}
	return core.Sample{}, err
}

// answered reports that an error is the answer of a server, of whichever kind.
func answered(err error) bool { return postgres.Engine{}.Refused(err) || mysql.Engine{}.Refused(err) }

// Committing implements monitor.Engine.
func (f *Found) Committing(ctx context.Context, link monitor.Link) ([]string, error) {
	e, err := f.find(ctx, link)
	if err != nil {
		return nil, err
	}
	return e.Committing(ctx, link)
}

// Need implements monitor.Engine.
func (f *Found) Need(base, s core.Sample) core.Position {
	if e := f.Engine(); e != nil {
		return e.Need(base, s)
	}
	return core.Position{}
}

// Gone implements monitor.Engine.
func (f *Found) Gone(ctx context.Context, link monitor.Link, b monitor.Backend, end bool) (bool, error) {
	e, err := f.find(ctx, link)
	if err != nil {
		return false, err
	}
	return e.Gone(ctx, link, b, end)
}

// Capabilities implements vconn.Engine.
func (f *Found) Capabilities(ctx context.Context, link monitor.Link) []string {
	e, err := f.find(ctx, link)
	if err != nil {
		return nil // the probe that follows says why
	}
	return e.Capabilities(ctx, link)
}

// Settings returns the row of the engine's SettingsSQL.
func (f *Found) Settings(ctx context.Context, link monitor.Link) ([]string, error) {
	e, err := f.find(ctx, link)
	if err != nil {
		return nil, err
	}
	return link.QueryRow(ctx, e.SettingsSQL())
}

// ReadOnlySQL implements vconn.Engine. It is empty while the engine is not known.
func (f *Found) ReadOnlySQL() string {
	if e := f.Engine(); e != nil {
		return e.ReadOnlySQL()
	}
	return ""
}

// SettingsSQL implements vconn.Engine. It is empty while the engine is not known.
func (f *Found) SettingsSQL() string {
	if e := f.Engine(); e != nil {
		return e.SettingsSQL()
	}
	return ""
}

// SettingNames implements vconn.Engine.
func (f *Found) SettingNames() (readOnly, timeout, remedy string) {
	if e := f.Engine(); e != nil {
		return e.SettingNames()
	}
	return "", "", ""
}

// RemoteApplySQL implements vconn.Engine.
func (f *Found) RemoteApplySQL(local bool) string {
	if e := f.Engine(); e != nil {
		return e.RemoteApplySQL(local)
	}
	return ""
}

// RestoreSQL implements vconn.Engine.
func (f *Found) RestoreSQL(before string) string {
	if e := f.Engine(); e != nil {
		return e.RestoreSQL(before)
	}
	return ""
}

// SelfSQL implements vconn.Engine: a connection asks for itself after it has been asked who it is.
func (f *Found) SelfSQL() string {
	if e := f.Engine(); e != nil {
		return e.SelfSQL()
	}
	return ""
}

// ParseSelf implements vconn.Engine.
func (f *Found) ParseSelf(row []string) (monitor.Backend, error) {
	if e := f.Engine(); e != nil {
		return e.ParseSelf(row)
	}
	return monitor.Backend{}, nil
}

// Wire implements vconn.Engine. While the engine is not known, the connection's driver tells enough.
func (f *Found) Wire(conn driver.Conn) monitor.Wire {
	if e := f.Engine(); e != nil {
		return e.Wire(conn)
	}
	if w, ok := postgres.PgxWire(conn); ok {
		return w
	}
	return mysql.Engine{}.Wire(conn)
}

// Down implements vconn.Engine.
func (f *Found) Down(err error) bool {
	if e := f.Engine(); e != nil {
		return e.Down(err)
	}
	return mysql.Engine{}.Down(err) && postgres.Engine{}.Down(err)
}

// Refused implements vconn.Engine. While the engine is not known nothing has been run.
func (f *Found) Refused(err error) bool {
	e := f.Engine()
	return e != nil && e.Refused(err)
}

// NotSent implements vconn.Engine.
func (f *Found) NotSent(err error) bool {
	e := f.Engine()
	return e == nil || e.NotSent(err)
}

// ReadOnly implements vconn.Engine.
func (f *Found) ReadOnly(err error) bool {
	e := f.Engine()
	return e != nil && e.ReadOnly(err)
}

// Retry implements vconn.Engine.
func (f *Found) Retry(err error) core.Retry {
	if e := f.Engine(); e != nil {
		return e.Retry(err)
	}
	return core.RetryNone
}
