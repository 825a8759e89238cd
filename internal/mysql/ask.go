package mysql

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
)

const (
	// statusAge is how long what feeds a server is not asked for again on a connection. A monitor that probes at its
	// interval asks every time; a capture or a poll that follows at once costs one round trip and not two.
	statusAge = 200 * time.Millisecond
	// settleTries is how often a server that changes meanwhile, or a pooler's next one, is asked.
	settleTries = 4
	// factsAge is how long the rest is remembered.
	factsAge = 30 * time.Second
)

// memory is what is remembered of the server at the other end of a connection.
type memory struct {
	connection string // CONNECTION_ID(): behind a pooler each statement may have another
	identity   string
	facts      facts
	factsAt    time.Time
	readOnly   bool
	status     status
	group      group
	statusAt   time.Time
}

// recalling is a link that remembers. It is used by one goroutine at a time, as any link.
type recalling interface{ recall() *memory }

// Ask implements monitor.Engine: who the server is, its role, its position, and whether it is fed by anything. It takes one
// to three statements, and honours ctx. The link must be one of [Engine.Wire], or able to Query as those are.
//
// The role is observed: a server that is read-only, or replicates, is a replica; one that replicates and is not read-only has a
// claim to be the primary (Claim). A replica has a source (HasSource) only
// when all that it replicates from is received and applied without an error, and the user may see it.
//
// A server without a position has a sample without one. A node of a Galera cluster and a member of a group with several
// primaries are an error that matches [ErrUnsupported].
func (e Engine) Ask(ctx context.Context, link monitor.Link) (core.Sample, error) {
	r, err := e.Look(ctx, link)
	return r.Sample, err
}

// Capabilities says, a sentence each, what the server does not have or the user may not see, and what can be done about it;
// nothing when all is well, or when it cannot be asked.
func (e Engine) Capabilities(ctx context.Context, link monitor.Link) []string {
	r, err := e.Look(ctx, link)
	if err != nil {
		return nil
	}
	if q, ok := link.(querier); ok {
		if list := binlogFilters(ctx, q); len(list) > 0 {
			r.miss("the server leaves a part of what is written out of its log (%s), and no position tells: a session's read of that is stale on a "+
				"replica; send it to the primary", strings.Join(list, ", "))
		}
	}
	return r.Missing
}

// Look is Ask with all that it has found out.
//
// What feeds the server is read before the position, and whether the server is read-only with it: when the sample says
// that it is a primary, then it was one at the time of the position as far as it takes itself for one.
func (e Engine) Look(ctx context.Context, link monitor.Link) (Report, error) {
	began := time.Now()
	q, ok := link.(querier)
	if !ok {
		return Report{}, errors.New("ask the server: the connection reads one row only")
	}
	m := &memory{}
	if l, ok := link.(recalling); ok {
		m = l.recall()
	}
	r, err := e.look(ctx, link, q, m)
	if err != nil {
		return Report{}, err
	}
	r.Began, r.Ended = began, time.Now()
	return r, nil
}

func (e Engine) look(ctx context.Context, link monitor.Link, q querier, m *memory) (Report, error) {
	if m.factsAt.IsZero() {
		p, err := e.probe(ctx, link, m)
		if err != nil {
			return Report{}, err
		}
		m.readOnly = p.readOnly
	}
	p, err := e.settled(ctx, link, q, m)
	if err != nil {
		return Report{}, err
	}
	role, fed := m.status.role(p)
	missing, claims := m.status.missing, m.status.claims(p)
	if p.facts.groupName != "" {
		role, fed = m.group.role(p, &m.status)
		if m.group.state != "OFFLINE" {
			missing, claims = m.group.missing, false
		}
	}
	r := p.report(role)
	r.Self, r.Sources = p.self(), m.status.from
	if claims {
		claim := p.report(core.RolePrimary)
		r.Claim = &claim.Sample
	}
	r.HasSource = fed
	r.SourceUnknown = role == core.RoleReplica && !fed && missing != ""
	if fed && m.status.sources > 0 && m.status.lag >= 0 && !m.status.denied {
		r.SourceLag, r.SourceLagKnown = m.status.lag, true
	}
	if len(m.status.filters) > 0 {
		r.miss("the replica leaves out a part of what the primary has written (%s), and no position tells: a session's read of that is stale here; "+
			"use no filters, or send it to the primary", strings.Join(m.status.filters, ", "))
	}
	if missing != "" {
		r.Missing = append(r.Missing, missing)
	}
	return r, nil
}

// settled asks for a position that what feeds the server was read before, on the same server and while it was as
// read-only as at the position: when something happens to it, all is read again.
func (e Engine) settled(ctx context.Context, link monitor.Link, q querier, m *memory) (*probe, error) {
	for range settleTries {
		if err := e.refreshStatus(ctx, q, m); err != nil {
			return nil, err
		}
		p, err := e.probe(ctx, link, m)
		if err != nil {
			return nil, err
		}
		if p.readOnly == m.readOnly && !m.statusAt.IsZero() {
			return p, nil
		}
		m.readOnly, m.statusAt = p.readOnly, time.Time{}
	}
	return nil, errors.New("ask the server: every answer is another server's, or another role's")
}

// probe asks for the position, and for the rest when it is not remembered or another server answers.
func (e Engine) probe(ctx context.Context, link monitor.Link, m *memory) (*probe, error) {
	whole := time.Since(m.factsAt) >= factsAge // also when there is no memory
	for {
		query := e.shortSQL()
		if whole {
			query = e.ProbeSQL()
		}
		row, err := link.QueryRow(ctx, query)
		if err != nil {
			return nil, err
		}
		p, err := e.parse(row)
		if err != nil {
			return nil, err
		}
		if whole {
			if err := p.facts.check(); err != nil {
				return nil, err
			}
			if p.identity != m.identity {
				m.statusAt = time.Time{}
			}
			m.connection, m.identity, m.facts, m.factsAt = p.connection, p.identity, p.facts, time.Now()
			return p, nil
		}
		if p.connection == m.connection && p.identity == m.identity {
			p.facts = m.facts
			return p, nil
		}
		whole = true
	}
}

func (e Engine) refreshStatus(ctx context.Context, q querier, m *memory) error {
	if !m.statusAt.IsZero() && time.Since(m.statusAt) < statusAge {
		return nil
	}
	at := time.Now()
	var err error
	if m.status.denied {
		m.status, err = e.deniedStatus(ctx, q)
	} else {
		m.status, err = e.replicaStatus(ctx, q)
	}
	if err == nil && m.facts.groupName != "" {
		m.group, err = e.groupStatus(ctx, q, &m.facts)
	}
	if err != nil {
		return err
	}
	m.statusAt = at
	return nil
}
