package readroutegrpc

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/readroute/readroute"
)

// UnaryServerInterceptor gives every call a new session that needs what the caller's token asks for. When the session has
// come to need more by the end of the call, the answer's trailer says so, also when the call fails. For the positions of the
// call's writes the answer waits at most for the codec's CaptureTimeout.
func UnaryServerInterceptor(codec *readroute.Codec) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		ctx = arrive(ctx, codec)
		defer func() { // also when the handler panics and somebody else answers
			if md := reply(ctx, codec); md != nil {
				_ = grpc.SetTrailer(ctx, md) // fails only without a server
			}
		}()
		return handler(ctx, req)
	}
}

// StreamServerInterceptor is UnaryServerInterceptor for streams. What the session has come to need before the first message
// the client is told with that, and all of it in the trailer. A stream has one session; a handler that serves many users or
// tasks over one stream makes a session for each.
func StreamServerInterceptor(codec *readroute.Codec) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		s := &serverStream{ServerStream: stream, codec: codec, ctx: arrive(stream.Context(), codec)}
		defer func() {
			if md := reply(s.ctx, codec); md != nil {
				s.SetTrailer(md)
			}
		}()
		return handler(srv, s)
	}
}

type serverStream struct {
	grpc.ServerStream
	codec *readroute.Codec
	ctx   context.Context
	once  sync.Once
}

// Context returns the context with the session.
func (s *serverStream) Context() context.Context { return s.ctx }

// SendHeader implements grpc.ServerStream.
func (s *serverStream) SendHeader(md metadata.MD) error {
	s.announce()
	return s.ServerStream.SendHeader(md)
}

// SendMsg implements grpc.ServerStream.
func (s *serverStream) SendMsg(m any) error {
	s.announce()
	return s.ServerStream.SendMsg(m)
}

// announce puts the token into the header, which goes out with what is sent next.
func (s *serverStream) announce() {
	s.once.Do(func() {
		if md := reply(s.ctx, s.codec); md != nil {
			_ = s.SetHeader(md) // fails once the header has gone out, and the trailer has it all the same
		}
	})
}
