// Package check judges histories: what sessions asked for, what they were given, and what the servers really did.
//
// [History.Verify] is a pure function. It knows nothing of this library, of a database or of a clock: the simulation and the
// tests on real clusters record what happened with a [Recorder], and both are judged by it.
//
// A database is keys; a write adds a version to a key, and a read returns the versions of a key that the server showed. A
// version is written once in a history, so what a read shows says exactly which writes it saw, however concurrent they were
// and whatever a failover has thrown away.
package check
