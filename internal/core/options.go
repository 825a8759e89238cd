package core

import (
	"context"
	"time"
)

// Options is what a context says of the statements run with it. It is immutable once it is in a context.
type Options struct {
	Session  *Session
	plain    bool // see Plain
	Owner    any  // what Session is part of
	Level    Level
	Fallback Fallback
	Wait     time.Duration
	HasWait  bool
	Node     string // "" names none
	Tags     []string
	// RemoteApply makes a write wait until a synchronous standby shows it.
	RemoteApply bool
}

// Plain reports that nothing but the session says what is asked of a statement. It holds of options from a context.
func (o *Options) Plain() bool { return o.plain }

type optionsKey struct{}

// optionsContext is what context.WithValue would make. That it can be told by its type spares most statements the search, and that it has
// the options in it spares them another object.
type optionsContext struct {
	context.Context
	options Options
}

// Value implements context.Context.
func (c *optionsContext) Value(key any) any {
	if key == (optionsKey{}) {
		return &c.options
	}
	return c.Context.Value(key)
}

// NewContext returns a context that carries o.
func NewContext(ctx context.Context, o *Options) context.Context {
	return with(&optionsContext{ctx, *o})
}

// With returns a context that carries the options of ctx, changed by f.
func With(ctx context.Context, f func(*Options)) context.Context {
	c := &optionsContext{Context: ctx}
	if o := FromContext(ctx); o != nil {
		c.options = *o
	}
	f(&c.options)
	return with(c)
}

func with(c *optionsContext) context.Context {
	o := &c.options
	o.plain = o.Level == LevelUnset && o.Node == "" && o.Tags == nil && !o.RemoteApply
	return c
}

// FromContext returns the options of ctx, or nil.
func FromContext(ctx context.Context) *Options {
	if c, ok := ctx.(*optionsContext); ok {
		return &c.options
	}
	return search(ctx)
}

//go:noinline
func search(ctx context.Context) *Options {
	o, _ := ctx.Value(optionsKey{}).(*Options)
	return o
}
