package readroute

import (
	"context"
	"errors"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
)

var eventKinds = map[monitor.EventKind]EventKind{
	monitor.EventUp:             EventUp,
	monitor.EventDown:           EventDown,
	monitor.EventRoleChanged:    EventRoleChanged,
	monitor.EventPrimaryChanged: EventPrimaryChanged,
	monitor.EventTwoPrimaries:   EventTwoPrimaries,
	monitor.EventRestarted:      EventRestarted,
	monitor.EventStopped:        EventStopped,
	monitor.EventResumed:        EventResumed,
	monitor.EventSharedEndpoint: EventSharedEndpoint,
}

// onNode hears of a node's transition. Connections that were opened for another role, or another run of the server, are
// dropped: one that was opened read-only must not serve writes after a promotion.
func (db *DB) onNode(e monitor.Event) {
	for i, n := range db.nodes {
		reader, writer := db.cluster.Readers[i], db.cluster.Writers[i]
		here := n.Name == e.Node
		switch e.Kind {
		case monitor.EventRoleChanged, monitor.EventRestarted:
			if here {
				reader.Drop()
				writer.Drop()
			}
		case monitor.EventPrimaryChanged:
			if !here {
				writer.Drop()
			}
		case monitor.EventSharedEndpoint:
			if here {
				reader.Share()
			}
		case monitor.EventDown:
			// Behind a pooler the probe may only be waiting in its queue, for the very reads that would be ended.
			if here && !(n.Pooled && errors.Is(e.Err, context.DeadlineExceeded)) {
				reader.Silence()
			}
		case monitor.EventUp:
			if here {
				reader.Answer()
			}
		default:
		}
	}
	if e.Kind == monitor.EventWritable {
		db.warn(e.Node, "%s", writableReplica)
		return
	}
	if e.Kind == monitor.EventPrimaryChanged {
		db.plain.drop()
	}
	db.catalogue.onNode(e)
	db.event(Event{Kind: eventKinds[e.Kind], Node: e.Node, Role: Role(e.Role), Err: e.Err})
}

// writableReplica is said of a server that accepts writes while it replicates, as long as it counts as a replica.
const writableReplica = "the server accepts writes and replicates from one that may be the primary, so it counts as a replica: " +
	"set read_only if it is one, and stop its replication if it is the primary"

func (db *DB) onVerdict(v core.Verdict) {
	kinds := map[core.Verdict]EventKind{
		core.VerdictForeign:  EventPositionForeign,
		core.VerdictLost:     EventPositionLost,
		core.VerdictReplaced: EventPositionEnded,
	}
	e := Event{Kind: kinds[v]}
	if v == core.VerdictLost {
		e.Err = ErrPositionLost
	}
	db.event(e)
}

func (db *DB) onDiscard(node int, why string) {
	db.event(Event{Kind: EventStateDiscarded, Node: db.nodes[node].Name, Why: why})
}

func (db *DB) onPooledState(node int, token string) {
	db.event(Event{Kind: EventPooledState, Node: db.nodes[node].Name, Why: token})
}

func (db *DB) event(e Event) {
	if db.config.Hooks.Event != nil {
		db.config.Hooks.Event(e)
	}
}
