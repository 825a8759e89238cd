package replicatest

import (
	"context"
	"database/sql"
	"errors"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/replicatest/internal/fleet"
	"github.com/readroute/readroute/replicatest/internal/lite"
)

// embedded are the databases of New.
type embedded struct {
	*lite.Fleet
	version string
}

var _ fleet.Comparing = embedded{}

// embeddedServer is one of them.
type embeddedServer struct{ *lite.Server }

func newEmbedded(replicas int) (fleet.Servers, error) {
	f, err := lite.Open(replicas, readroute.DefaultMarkerTable)
	if err != nil {
		return nil, err
	}
	e := embedded{Fleet: f}
	db := f.Primary().DB()
	err = db.QueryRow("SELECT sqlite_version()").Scan(&e.version) //nolint:noctx // nothing is waited for
	if err == nil {
		err = readroute.CreateMarker(context.Background(), db, readroute.Marker{})
	}
	if err == nil {
		err = f.WaitCaughtUp(context.Background())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return e, nil
}

// Engine implements fleet.Servers.
func (e embedded) Engine() string { return "SQLite" }

// Version implements fleet.Servers.
func (e embedded) Version() string { return e.version }

// All implements fleet.Servers.
func (e embedded) All() []fleet.Server {
	var list []fleet.Server
	for _, s := range e.Servers() {
		list = append(list, embeddedServer{s})
	}
	return list
}

// Primary implements fleet.Servers.
func (e embedded) Primary() fleet.Server { return embeddedServer{e.Fleet.Primary()} }

// Configure implements fleet.Servers.
func (e embedded) Configure(config *readroute.Config) {
	config.Marker = &readroute.Marker{StateSQL: lite.StateSQL}
}

// Watch implements fleet.Comparing.
func (e embedded) Watch(told func(ctx context.Context, s fleet.Stale)) {
	if told == nil {
		e.Fleet.Watch(nil)
		return
	}
	e.Fleet.Watch(func(ctx context.Context, s lite.Stale) { told(ctx, fleet.Stale(s)) })
}

// DB implements fleet.Server.
func (s embeddedServer) DB() *sql.DB { return s.Server.DB() }

// Promote implements fleet.Server.
func (s embeddedServer) Promote(ctx context.Context) error { return s.Fleet().Promote(ctx, s.Server) }

// Diverge implements fleet.Server.
func (s embeddedServer) Diverge(ctx context.Context, statements ...string) error {
	return s.Fleet().Diverge(ctx, s.Server, statements...)
}

// Restore implements fleet.Server.
func (s embeddedServer) Restore(ctx context.Context) error { return s.Fleet().Restore(ctx, s.Server) }
