package readroutegrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/readroute/readroute"
	readroutegrpc "github.com/readroute/readroute/contrib/grpc"
	"github.com/readroute/readroute/internal/dbtest"
)

const testTimeout = 60 * time.Second

func newCodec(t *testing.T) *readroute.Codec {
	t.Helper()
	codec, err := readroute.NewCodec(readroute.CodecConfig{
		Keys:           []readroute.Key{{ID: "1", Secret: []byte(strings.Repeat("s", 32))}},
		CaptureTimeout: 10 * time.Second,
	})
	require.NoError(t, err)
	return codec
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// service writes when it is asked to, and counts what it has written. Its reads go to replicas that stand still unless the
// session needs more.
type service struct {
	pb.UnimplementedTestServiceServer
	db    *readroute.DB
	roles chan readroute.Role
}

func (s *service) write(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, "INSERT INTO called VALUES (1)")
	return err
}

func (s *service) count(ctx context.Context) (n int32, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT count(*) FROM called").Scan(&n)
	return n, err
}

// answer has a payload as long as the count.
func (s *service) answer(ctx context.Context) (*pb.Payload, error) {
	n, err := s.count(ctx)
	return &pb.Payload{Body: make([]byte, n)}, err
}

// UnaryCall writes FillUsername, fails with the status that it is told, and counts.
func (s *service) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if in.GetFillUsername() {
		if err := s.write(ctx); err != nil {
			return nil, err
		}
	}
	if in.GetFillOauthScope() {
		panic("told to")
	}
	if st := in.GetResponseStatus(); st != nil {
		return nil, status.Error(codes.Code(st.GetCode()), st.GetMessage())
	}
	payload, err := s.answer(ctx)
	return &pb.SimpleResponse{Payload: payload}, err
}

// StreamingOutputCall sends as many answers as it is told sizes; before each that is 1 it writes. It writes once more at the
// end when there is a payload.
func (s *service) StreamingOutputCall(in *pb.StreamingOutputCallRequest, out grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	for _, p := range in.GetResponseParameters() {
		if p.GetSize() == 1 {
			if err := s.write(out.Context()); err != nil {
				return err
			}
		}
		payload, err := s.answer(out.Context())
		if err != nil {
			return err
		}
		if err := out.Send(&pb.StreamingOutputCallResponse{Payload: payload}); err != nil {
			return err
		}
	}
	if in.GetPayload() != nil {
		return s.write(out.Context())
	}
	return nil
}

// StreamingInputCall writes once for each message.
func (s *service) StreamingInputCall(in grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error {
	for {
		switch _, err := in.Recv(); {
		case errors.Is(err, io.EOF):
			n, err := s.count(in.Context())
			return errors.Join(err, in.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: n}))
		case err != nil:
			return err
		}
		if err := s.write(in.Context()); err != nil {
			return err
		}
	}
}

// FullDuplexCall writes for each message, and answers with the header first.
func (s *service) FullDuplexCall(both grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	for {
		switch _, err := both.Recv(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := s.write(both.Context()); err != nil {
			return err
		}
		payload, err := s.answer(both.Context())
		if err != nil {
			return err
		}
		if err := both.Send(&pb.StreamingOutputCallResponse{Payload: payload}); err != nil {
			return err
		}
	}
}

// world is a cluster whose replicas stand still, a service over it, and a client in another process.
type world struct {
	pb.TestServiceClient
	db      *readroute.DB // the client's own
	service *service
	written int // by anyone
}

var cluster *dbtest.PostgresCluster

func TestMain(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	var err error
	cluster, err = dbtest.StartPostgres(ctx, dbtest.PostgresOptions{Standbys: 1})
	code := 1
	if err == nil {
		code = m.Run()
		err = cluster.Close()
	}
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx := testContext(t)
	require.NoError(t, cluster.Primary().Exec(ctx, "DROP TABLE IF EXISTS called", "CREATE TABLE called (id int)"))
	require.NoError(t, cluster.WaitCaughtUp(ctx))
	w := &world{service: &service{roles: make(chan readroute.Role, 1000)}}
	w.db = openPool(t, nil)
	w.service.db = openPool(t, w.service.roles)
	require.NoError(t, cluster.Standby(0).PauseReplay(ctx))
	t.Cleanup(func() { require.NoError(t, cluster.Standby(0).ResumeReplay(context.Background())) })

	codec := newCodec(t)
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(recovering, readroutegrpc.UnaryServerInterceptor(codec)),
		grpc.StreamInterceptor(readroutegrpc.StreamServerInterceptor(codec)))
	pb.RegisterTestServiceServer(server, w.service)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(readroutegrpc.UnaryClientInterceptor(codec)),
		grpc.WithStreamInterceptor(readroutegrpc.StreamClientInterceptor(codec)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	w.TestServiceClient = pb.NewTestServiceClient(conn)
	return w
}

// recovering answers for a handler that panics.
func recovering(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = status.Error(codes.Aborted, fmt.Sprint(v))
		}
	}()
	return handler(ctx, req)
}

func openPool(t *testing.T, roles chan readroute.Role) *readroute.DB {
	t.Helper()
	config := readroute.Config{
		Primary:        readroute.Node{Name: "a", Connector: readroute.Postgres(cluster.Primary().DSN())},
		Replicas:       []readroute.Node{{Name: "b", Connector: readroute.Postgres(cluster.Standby(0).DSN())}},
		Strategy:       readroute.PositionWait(20 * time.Millisecond),
		CaptureTimeout: 10 * time.Second,
		MaxLag:         time.Hour,
		ProbeInterval:  10 * time.Millisecond,
	}
	if roles != nil {
		config.Hooks.Decision = func(_ context.Context, d readroute.Decision) {
			if d.Class == readroute.ClassRead {
				roles <- d.Role
			}
		}
	}
	db, err := readroute.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.WaitReady(testContext(t)))
	return db
}

// sees requires that the session of ctx sees at least what was written, and a new one nothing of it.
func (w *world) sees(t *testing.T, ctx context.Context) {
	t.Helper()
	var n int
	require.NoError(t, w.db.QueryRowContext(ctx, "SELECT count(*) FROM called").Scan(&n))
	require.GreaterOrEqual(t, n, w.written)
	require.NoError(t, w.db.QueryRowContext(readroute.WithSession(ctx), "SELECT count(*) FROM called").Scan(&n))
	require.Zero(t, n, "the replica stands still")
}

// TestTokenOverUnaryCalls: in both directions, also when the call fails, and nothing when nothing was written.
func TestTokenOverUnaryCalls(t *testing.T) {
	w := newWorld(t)
	ctx := readroute.WithSession(testContext(t))
	answer, err := w.UnaryCall(ctx, &pb.SimpleRequest{})
	require.NoError(t, err)
	require.Empty(t, answer.GetPayload().GetBody())
	require.Equal(t, readroute.RoleReplica, <-w.service.roles)

	_, err = w.db.ExecContext(ctx, "INSERT INTO called VALUES (1)")
	require.NoError(t, err)
	w.written++
	var header, trailer metadata.MD
	answer, err = w.UnaryCall(ctx, &pb.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
	require.NoError(t, err)
	require.Len(t, answer.GetPayload().GetBody(), 1, "the service sees what its caller has written")
	require.Empty(t, append(header.Get(readroute.DefaultTokenHeader), trailer.Get(readroute.DefaultTokenHeader)...))
	require.Equal(t, readroute.RolePrimary, <-w.service.roles)

	for _, request := range []*pb.SimpleRequest{
		{FillUsername: true},
		{FillUsername: true, ResponseStatus: &pb.EchoStatus{Code: int32(codes.NotFound)}},
		{FillUsername: true, ResponseStatus: &pb.EchoStatus{Code: int32(codes.Internal)}},
		{FillUsername: true, FillOauthScope: true},
	} {
		ctx := metadata.AppendToOutgoingContext(readroute.WithSession(testContext(t)), "more", "metadata")
		_, err := w.UnaryCall(ctx, request, grpc.Trailer(&trailer))
		require.Equal(t, request.GetResponseStatus() != nil || request.GetFillOauthScope(), err != nil)
		w.written++
		w.sees(t, ctx)
		require.Len(t, trailer.Get(readroute.DefaultTokenHeader), 1, "the caller's own options hold as well")
	}
}

// TestTokenOverStreams: what was written before the first message is known with it, the rest at the end.
func TestTokenOverStreams(t *testing.T) {
	w := newWorld(t)
	write, idle := &pb.ResponseParameters{Size: 1}, &pb.ResponseParameters{}
	t.Run("server", func(t *testing.T) {
		ctx := readroute.WithSession(testContext(t))
		stream, err := w.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{
			ResponseParameters: []*pb.ResponseParameters{write, idle}, Payload: &pb.Payload{},
		})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
		w.written++
		w.sees(t, ctx)
		for !errors.Is(err, io.EOF) {
			_, err = stream.Recv()
		}
		w.written++
		w.sees(t, ctx)
	})
	t.Run("at the end", func(t *testing.T) { // so that only the trailer can tell
		for _, messages := range [][]*pb.ResponseParameters{nil, {idle}} {
			ctx := readroute.WithSession(testContext(t))
			stream, err := w.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{ResponseParameters: messages, Payload: &pb.Payload{}})
			require.NoError(t, err)
			for !errors.Is(err, io.EOF) {
				_, err = stream.Recv()
			}
			header, err := stream.Header()
			require.NoError(t, err)
			require.Empty(t, header.Get(readroute.DefaultTokenHeader))
			w.written++
			w.sees(t, ctx)
		}
	})
	t.Run("client", func(t *testing.T) {
		ctx := readroute.WithSession(testContext(t))
		stream, err := w.StreamingInputCall(ctx)
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, stream.Send(&pb.StreamingInputCallRequest{}))
		}
		answer, err := stream.CloseAndRecv()
		require.NoError(t, err)
		w.written += 2
		require.EqualValues(t, w.written, answer.GetAggregatedPayloadSize())
		w.sees(t, ctx)
	})
	t.Run("both", func(t *testing.T) {
		ctx := readroute.WithSession(testContext(t))
		_, err := w.db.ExecContext(ctx, "INSERT INTO called VALUES (1)")
		require.NoError(t, err)
		w.written++
		stream, err := w.FullDuplexCall(ctx)
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, stream.Send(&pb.StreamingOutputCallRequest{}))
			answer, err := stream.Recv()
			require.NoError(t, err)
			w.written++
			require.Len(t, answer.GetPayload().GetBody(), w.written)
		}
		require.NoError(t, stream.CloseSend())
		_, err = stream.Recv()
		require.ErrorIs(t, err, io.EOF)
		w.sees(t, ctx)
	})
	t.Run("idle", func(t *testing.T) {
		ctx := readroute.WithSession(testContext(t))
		stream, err := w.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{idle}})
		require.NoError(t, err)
		for !errors.Is(err, io.EOF) {
			_, err = stream.Recv()
		}
		header, err := stream.Header()
		require.NoError(t, err)
		require.Empty(t, append(header.Get(readroute.DefaultTokenHeader), stream.Trailer().Get(readroute.DefaultTokenHeader)...))
	})
}

// TestTokenOfSeveralValues: what interceptors, handlers and proxies have appended to each other counts, in calls and in answers, and what
// is too much is one bad token.
func TestTokenOfSeveralValues(t *testing.T) {
	codec := newCodec(t)
	short, long := codec.Encode(readroute.PrimaryFor(10*time.Second)), codec.Encode(readroute.PrimaryFor(4*time.Minute))
	hasLong := func(ctx context.Context) bool {
		got, err := readroute.SessionFrom(ctx).Token(ctx)
		require.NoError(t, err)
		return got.Merge(readroute.PrimaryFor(3*time.Minute)).String() == got.String()
	}
	values := metadata.MD{}
	values.Append(readroute.DefaultTokenHeader, short, long)

	_, err := readroutegrpc.UnaryServerInterceptor(codec)(metadata.NewIncomingContext(testContext(t), values), nil, nil,
		func(ctx context.Context, _ any) (any, error) {
			require.True(t, hasLong(ctx))
			return nil, nil //nolint:nilnil // nobody looks
		})
	require.NoError(t, err)

	answering := func(md metadata.MD) context.Context {
		ctx := readroute.WithSession(testContext(t))
		err := readroutegrpc.UnaryClientInterceptor(codec)(ctx, "m", nil, nil, nil,
			func(_ context.Context, _ string, _, _ any, _ *grpc.ClientConn, options ...grpc.CallOption) error {
				for _, o := range options {
					if trailer, ok := o.(grpc.TrailerCallOption); ok {
						*trailer.TrailerAddr = md
					}
				}
				return nil
			})
		require.NoError(t, err)
		return ctx
	}
	require.True(t, hasLong(answering(values)))
	values = metadata.MD{}
	for range 100_000 {
		values.Append(readroute.DefaultTokenHeader, short)
	}
	values.Append(readroute.DefaultTokenHeader, long)
	ctx := answering(values)
	require.False(t, hasLong(ctx))
	require.True(t, asksForPrimary(t, ctx))
}

// asksForPrimary reports that a session reads from the primary for a while.
func asksForPrimary(t *testing.T, ctx context.Context) bool {
	t.Helper()
	token, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	return !token.IsZero() && token.Merge(readroute.PrimaryFor(time.Second)).String() == token.String()
}

// TestTokenOfLostAnswers: a call that may have written, and was not answered, holds its session to the primary.
func TestTokenOfLostAnswers(t *testing.T) {
	codec := newCodec(t)
	unary := readroutegrpc.UnaryClientInterceptor(codec)
	for code, lost := range map[codes.Code]bool{
		codes.OK: false, codes.NotFound: false, codes.InvalidArgument: false, codes.Aborted: false, codes.Unimplemented: false,
		codes.Canceled: true, codes.DeadlineExceeded: true, codes.Unavailable: true, codes.Internal: true, codes.Unknown: true,
	} {
		ctx := readroute.WithSession(testContext(t))
		err := unary(ctx, "m", nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			return status.Error(code, "")
		})
		require.Equal(t, code, status.Code(err))
		require.Equal(t, lost, asksForPrimary(t, ctx), "%s", code)
	}

	conn, err := grpc.NewClient("127.0.0.1:1", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(unary), grpc.WithStreamInterceptor(readroutegrpc.StreamClientInterceptor(codec)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	client := pb.NewTestServiceClient(conn)
	ctx := readroute.WithSession(testContext(t))
	_, err = client.UnaryCall(ctx, &pb.SimpleRequest{})
	require.Error(t, err)
	require.True(t, asksForPrimary(t, ctx))
	ctx = readroute.WithSession(testContext(t))
	_, err = client.StreamingInputCall(ctx)
	require.Error(t, err)
	require.True(t, asksForPrimary(t, ctx))

	// A stream that nobody reads to the end.
	w := newWorld(t)
	ctx, cancel := context.WithCancel(readroute.WithSession(testContext(t)))
	_, err = w.FullDuplexCall(ctx)
	require.NoError(t, err)
	cancel()
	require.Eventually(t, func() bool {
		return asksForPrimary(t, readroute.ContextWithSession(testContext(t), readroute.SessionFrom(ctx)))
	},
		10*time.Second, time.Millisecond)
}

// TestTokenWithoutSession: such a call passes as it is.
func TestTokenWithoutSession(t *testing.T) {
	codec := newCodec(t)
	var calls atomic.Int32
	err := readroutegrpc.UnaryClientInterceptor(codec)(testContext(t), "m", nil, nil, nil,
		func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, options ...grpc.CallOption) error {
			calls.Add(1)
			md, _ := metadata.FromOutgoingContext(ctx)
			require.Empty(t, md)
			require.Empty(t, options)
			return nil
		})
	require.NoError(t, err)
	_, err = readroutegrpc.StreamClientInterceptor(codec)(testContext(t), &grpc.StreamDesc{}, nil, "m",
		func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
			calls.Add(1)
			return nil, nil //nolint:nilnil // nobody looks
		})
	require.NoError(t, err)
	require.EqualValues(t, 2, calls.Load())
}
