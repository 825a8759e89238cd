package monitor

import "github.com/readroute/readroute/internal/core"

// EventKind is what has happened to a node.
type EventKind uint8

// The kinds of events.
const (
	EventUp EventKind = iota + 1
	EventDown
	EventRoleChanged
	EventPrimaryChanged
	EventTwoPrimaries
	EventRestarted
	EventStopped
	EventResumed
	EventSharedEndpoint
	EventWritable // a replica accepts writes
)

// Event is a transition of one node.
type Event struct {
	Kind EventKind
	Node string
	Role core.Role
	Err  error
}

// transitions compares two views of one node.
func transitions(before, after core.NodeView) []Event {
	var events []Event
	e := Event{Node: after.Name, Role: after.Role, Err: after.Err}
	add := func(k EventKind) {
		e.Kind = k
		events = append(events, e)
	}
	if before.Healthy != after.Healthy {
		if after.Healthy {
			add(EventUp)
		} else {
			add(EventDown)
		}
	}
	if before.Role != after.Role && before.Role != core.RoleUnknown {
		add(EventRoleChanged)
	}
	if before.Sample.Start != after.Sample.Start && !before.Sample.Start.IsZero() && !after.Blind {
		add(EventRestarted)
	}
	if before.Stopped != after.Stopped {
		if after.Stopped {
			add(EventStopped)
		} else {
			add(EventResumed)
		}
	}
	if after.Writable && !before.Writable {
		add(EventWritable)
	}
	return events
}
