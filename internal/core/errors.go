package core

import "errors"

// ErrWriteOpen says that a write of the session has handed out rows that are not closed yet, so that its position
// cannot be known.
var ErrWriteOpen = errors.New("readroute: a write of the session has not ended: close its rows first")
