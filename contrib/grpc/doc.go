// Package readroutegrpc carries the tokens of readroute over gRPC, in metadata: what one service has written for a call, the
// service that it calls sees, and what that one writes, the caller sees.
//
//	server := grpc.NewServer(
//		grpc.UnaryInterceptor(readroutegrpc.UnaryServerInterceptor(codec)),
//		grpc.StreamInterceptor(readroutegrpc.StreamServerInterceptor(codec)))
//	conn, err := grpc.NewClient(target,
//		grpc.WithUnaryInterceptor(readroutegrpc.UnaryClientInterceptor(codec)),
//		grpc.WithStreamInterceptor(readroutegrpc.StreamClientInterceptor(codec)))
//
// A server's interceptor gives every call a session of its own; a client's takes the one in the call's context. They go
// outside of interceptors that recover from panics, and inside of those that retry.
package readroutegrpc
