package sqlclass

// Dialect is the language of a text. The same bytes can be a read in one and a write in another.
type Dialect uint8

// The dialects. There is no zero dialect: a text of unknown language is [Unknown].
const (
	PostgreSQL Dialect = iota + 1
	MySQL
	MariaDB
	SQLite
)

// String returns the name of the dialect.
func (d Dialect) String() string {
	switch d {
	case PostgreSQL:
		return "postgresql"
	case MySQL:
		return "mysql"
	case MariaDB:
		return "mariadb"
	case SQLite:
		return "sqlite"
	}
	return "unknown"
}

// Class says where a statement may run.
type Class uint8

const (
	// Unknown is not known to be a read: it runs on the primary.
	Unknown Class = iota
	// Read only reads data that every node holds: it may run on a replica.
	Read
	// Write changes data, takes row locks or does something else that a replica refuses or must not do.
	Write
	// SessionState leaves state behind in the session, or its result depends on such state: it runs on the primary, and the
	// checkout stays on that connection.
	SessionState
	// TxControl begins, ends or structures a transaction.
	TxControl
)

// String returns the class as it appears in reasons and in the output of the command.
func (c Class) String() string {
	switch c {
	case Read:
		return "read"
	case Write:
		return "write"
	case SessionState:
		return "session_state"
	case TxControl:
		return "tx_control"
	}
	return "unknown"
}

// Hint is what a comment in the text asks for. Text inside a string or a quoted name is never a hint.
type Hint uint8

const (
	// HintNone: no hint in the text.
	HintNone Hint = iota
	// HintPrimary comes from route:primary or FORCE_MASTER. It wins over a hint for a replica in the same text.
	HintPrimary
	// HintReplica comes from route:replica or FORCE_SLAVE. It can send an [Unknown] statement to a replica, nothing else.
	HintReplica
)

// String returns the hint in the form in which it is written in a comment, or an empty string.
func (h Hint) String() string {
	switch h {
	case HintPrimary:
		return "route:primary"
	case HintReplica:
		return "route:replica"
	}
	return ""
}

// Statement is what is known about a text. It is an immutable value.
type Statement struct {
	Class Class
	Hint  Hint

	// LeavesState: leaves session state behind that outlives a transaction (SET, temporary table, advisory lock, LISTEN,
	// PREPARE, cursor WITH HOLD, GET_LOCK, user variable, ...). May accompany any class but Read.
	LeavesState bool
	// TxState: leaves state behind that ends with the transaction (SET LOCAL, set_config(.., true), pg_advisory_xact_lock,
	// a cursor without hold, SAVEPOINT).
	TxState bool
	// DependsState: the result depends on state of the session (currval, SHOW, current_setting, LAST_INSERT_ID, FETCH, ...).
	DependsState bool
	// MayWrite: data may have changed when the statement succeeds. True for Write and for everything that is not understood;
	// false for what is known to change no data (SET, SHOW, LISTEN, BEGIN, facts of a node).
	MayWrite bool
	// CommitsOnError: a part may be committed although the statement failed (CALL, DO, DDL, several statements in one text,
	// what commits implicitly on MySQL and MariaDB).
	CommitsOnError bool
	// EndsTx: ends a transaction, explicitly (COMMIT, ROLLBACK, END, ABORT, PREPARE TRANSACTION) or, on MySQL and MariaDB,
	// implicitly (DDL, BEGIN, LOCK TABLES, ...).
	EndsTx bool
	// MayEndTx: may end a transaction as well, and nothing in the text says whether it does: what it runs is on the server, or
	// in a value (CALL, EXECUTE, BEGIN NOT ATOMIC on MySQL and MariaDB). On PostgreSQL none of them can, in a transaction.
	MayEndTx bool
	// BeginsTx: begins a transaction (BEGIN, START TRANSACTION, XA START).
	BeginsTx bool
	// Unlogged: what the session writes from then on may never come to a replica (SET sql_log_bin, skip_replication on MySQL and MariaDB).
	Unlogged bool
	// Multi: more than one statement in the text.
	Multi bool

	// Token is the token that decided, for humans: a part of the text or a constant such as "FOR UPDATE". Empty for a read.
	Token string
}

// Target is where a statement belongs when nothing but its text is known.
type Target uint8

const (
	// TargetPrimary: the primary.
	TargetPrimary Target = iota
	// TargetReplica: any node that is current enough.
	TargetReplica
	// TargetPin: the primary, and what follows in the checkout stays on that connection.
	TargetPin
)

// String returns primary, replica or pin.
func (t Target) String() string {
	switch t {
	case TargetReplica:
		return "replica"
	case TargetPin:
		return "pin"
	}
	return "primary"
}

// Target returns where the statement belongs, by its class and its hint.
func (s Statement) Target() Target {
	switch {
	case s.Class == SessionState || s.Class == TxControl || s.LeavesState:
		return TargetPin
	case s.Hint == HintPrimary:
		return TargetPrimary
	case s.Class == Read || s.Class == Unknown && s.Hint == HintReplica:
		return TargetReplica
	}
	return TargetPrimary
}

// Reason says in a few words what decided the target: the hint, or the token. It may hold a part of the text, of any length.
func (s Statement) Reason() string {
	switch {
	case s.Class == Read && s.Hint == HintPrimary, s.Class == Unknown && s.Hint != HintNone:
		return "the hint " + s.Hint.String()
	case s.Class == Read:
		return "nothing but reads"
	}
	return s.Token
}
