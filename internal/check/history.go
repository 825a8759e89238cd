package check

import "time"

// Kind is what an operation does.
type Kind uint8

// The kinds of operations.
const (
	Read  Kind = iota // reads the versions of Key
	Write             // adds Version to Key
	Token             // makes a token of what the session needs
	Merge             // makes the session need what is in the token that the operation From made
	Fence             // makes the session need all that was acknowledged before it
	Other             // anything else that takes time, and statements that read and write nothing
)

// Level is what a read was promised.
type Level uint8

// The levels.
const (
	Eventual Level = iota // nothing
	Bounded               // all that was acknowledged Within before it asked
	Session               // all that its session has written, and its tokens and fences stand for
	Causal                // that, and what its session has read at this level or the next, and what that was built on
	Global                // that, and all that was acknowledged before it asked
	Primary               // what its session has written
)

// Outcome is what the caller was told.
type Outcome uint8

// The outcomes. The zero one is that it has not ended.
const (
	Pending Outcome = iota
	OK
	Failed  // a write is certain not to stand
	Unknown // a write may stand, or come to stand later
)

// Op is one operation of a session. Its times are counted from the beginning of the history.
type Op struct {
	ID      int // its index in History.Ops
	Session int // 0: none
	Kind    Kind
	Level   Level         // of a Read
	Within  time.Duration // of a Read at level Bounded: how old what it shows may be
	Begin   time.Duration
	// Asked is when it was settled what a Read must show: Begin, unless it is in a transaction that had begun before.
	Asked   time.Duration
	End     time.Duration
	Limit   time.Duration // how long it may take; 0 when nothing is said of that
	Outcome Outcome
	Key     int
	Version int   // of a Write
	Saw     []int // of a Read: the versions of Key, in any order
	From    int   // of a Merge: the ID of a Token
	Routes  []Route
	// Err is what the caller was told when it did not work, for whoever looks at the history.
	Err string
	// Statements is how many statements it was made of, each of which has exactly one route; 0 when nothing is said of that.
	Statements int
}

// Route is where a statement went, and why.
type Route struct {
	Node    string
	Replica bool // the node was taken for a replica
	Reason  string
}

// Commit is the truth about a write: that it stands, and since when.
type Commit struct {
	Version int
	At      time.Duration
}

// Loss is the truth about a write that stood and was lost, in a failover or a crash.
type Loss struct {
	Version int
	At      time.Duration
	// Silent is that nobody can tell: the log that had it was continued as if it had not been there.
	Silent bool
}

// Run is that a server ran the statement of an operation, whatever came of it.
type Run struct {
	Op      int
	Node    string
	Primary bool // the server was a primary, and was meant to be one
	Wrote   bool // it changed something
}

// Span is from one moment to another.
type Span struct{ From, To time.Duration }

// History is all that happened.
type History struct {
	Ops []Op
	// What follows is what the servers know. All of it may be missing: then less can be judged.
	Commits []Commit
	Losses  []Loss
	Runs    []Run
	// Reports are when it was said that a position was lost, or could not be had.
	Reports []time.Duration
	// Ahead are when it was said that the primary may not show yet what a replica has shown.
	Ahead []time.Duration
	// Split is when more than one server took writes, so that nobody could know what was acknowledged everywhere. A fence is
	// held to nothing then.
	Split []Span
}
