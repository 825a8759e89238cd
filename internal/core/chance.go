package core

import "math/rand/v2"

// Chance is where all that is left to chance comes from: when the next probe is due, and which of equals serves a read. A
// simulation sets it before anything else is there, so that the same seed is the same run. It is called from several
// goroutines.
var Chance = rand.Uint64
