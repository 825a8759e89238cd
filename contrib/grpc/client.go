package readroutegrpc

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/readroute/readroute"
)

// UnaryClientInterceptor sends the token of the session in a call's context, and makes that session need what the answer's
// token asks for. When a call fails in a way that leaves open what the server has done (codes Canceled, Unknown,
// DeadlineExceeded, ResourceExhausted, Internal, Unavailable, and no token in the trailer), the session reads from the primary
// for a while. A call whose context has no session passes as it is.
func UnaryClientInterceptor(codec *readroute.Codec) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		if readroute.SessionFrom(ctx) == nil {
			return invoke(ctx, method, req, reply, conn, options...)
		}
		var answer carrier
		err := invoke(send(ctx, codec), method, req, reply, conn, append(slices.Clone(options), grpc.Trailer(&answer.md))...)
		finish(ctx, codec, answer.md, err)
		return err
	}
}

// StreamClientInterceptor is UnaryClientInterceptor for streams. The session learns of what the server wrote before its
// first message once that is received, and of the rest when the stream has ended: receive to the end, as gRPC asks for
// anyway. A stream whose context ends before that counts as one that failed.
func StreamClientInterceptor(codec *readroute.Codec) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer,
		options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		if readroute.SessionFrom(ctx) == nil {
			return open(ctx, desc, conn, method, options...)
		}
		stream, err := open(send(ctx, codec), desc, conn, method, options...)
		if err != nil {
			finish(ctx, codec, nil, err)
			return nil, err
		}
		s := &clientStream{ClientStream: stream, codec: codec, ctx: ctx, once: !desc.ServerStreams}
		s.stop = context.AfterFunc(ctx, func() { s.ended.Do(func() { codec.Merge(ctx, nil) }) })
		return s, nil
	}
}

type clientStream struct {
	grpc.ClientStream
	codec  *readroute.Codec
	ctx    context.Context
	once   bool // the server sends one message
	header sync.Once
	ended  sync.Once
	stop   func() bool
}

// RecvMsg implements grpc.ClientStream.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.header.Do(func() {
		if md, err := s.Header(); err == nil { // it has come with the message
			learn(s.ctx, s.codec, md)
		}
	})
	if err != nil || s.once {
		ended := err
		if errors.Is(err, io.EOF) {
			ended = nil
		}
		s.stop()
		s.ended.Do(func() { finish(s.ctx, s.codec, s.Trailer(), ended) })
	}
	return err
}
