package core

import (
	"context"
	"time"
)

// Options is what a context says of the statements run with it. It is immutable once it is in a context.
type Options struct {
	Session  *Session
	Owner    any // what Session is part of
	Level    Level
	Fallback Fallback
	Wait     time.Duration
	HasWait  bool
	Node     string // "" names none
	Tags     []string
	// RemoteApply makes a write wait until a synchronous standby shows it.
	RemoteApply bool
}

type optionsKey struct{}

// NewContext returns a context that carries o.
func NewContext(ctx context.Context, o *Options) context.Context {
	return context.WithValue(ctx, optionsKey{}, o)
}

// FromContext returns the options of ctx, or nil.
func FromContext(ctx context.Context) *Options {
	o, _ := ctx.Value(optionsKey{}).(*Options)
	return o
}
