package readroutegrpc

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/readroute/readroute"
)

// carrier makes a readroute.Carrier of metadata.
type carrier struct {
	md    metadata.MD
	found bool // there was something
}

// Get implements readroute.Carrier.
func (c *carrier) Get(key string) string {
	for _, value := range c.Values(key) {
		return value
	}
	return ""
}

// Values returns all that is kept under key: metadata is appended to by whoever sets more of it, interceptors as well as handlers.
func (c *carrier) Values(key string) []string {
	values := c.md.Get(key)
	c.found = c.found || len(values) > 0
	return values
}

// Set implements readroute.Carrier.
func (c *carrier) Set(key, value string) { c.md.Set(key, value) }

// arrive returns a context with a session for what has come in.
func arrive(ctx context.Context, codec *readroute.Codec) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	return codec.Extract(ctx, &carrier{md: md})
}

// reply returns the metadata of an answer, or nil when there is nothing to tell.
func reply(ctx context.Context, codec *readroute.Codec) metadata.MD {
	c := carrier{md: metadata.MD{}}
	if !codec.Reply(ctx, &c) {
		return nil
	}
	return c.md
}

// send returns a context that sends the token of ctx's session.
func send(ctx context.Context, codec *readroute.Codec) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = metadata.MD{}
	}
	codec.Inject(ctx, &carrier{md: md})
	return metadata.NewOutgoingContext(ctx, md)
}

// learn tells the session of ctx what an answer says. It reports whether that has a token.
func learn(ctx context.Context, codec *readroute.Codec, md metadata.MD) bool {
	c := carrier{md: md}
	codec.Merge(ctx, &c)
	return c.found
}

// finish tells the session of ctx how a call has ended.
func finish(ctx context.Context, codec *readroute.Codec, trailer metadata.MD, err error) {
	if !learn(ctx, codec, trailer) && lost(err) {
		codec.Merge(ctx, nil)
	}
}

// lost reports that an error may be the client's own or the connection's, so that nobody can say what the server has done.
func lost(err error) bool {
	switch status.Code(err) {
	case codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal, codes.Unavailable:
		return true
	default:
		return false
	}
}
