package core

// Retry is why a statement is routed a second time.
type Retry uint8

// The reasons for a second try.
const (
	RetryNone       Retry = iota
	RetryConnection       // the connection or the node failed
	RetryConflict         // replay cancelled the read
	RetryRefused          // the replica refused it as a write, or as something that it cannot do
	RetrySchema           // the replica does not have the table, column or function yet
	RetryPlan             // the statement was planned before its tables changed
)

// String names the cause.
func (r Retry) String() string {
	return [...]string{"", "connection", "conflict", "refused", "schema", "plan"}[r]
}
