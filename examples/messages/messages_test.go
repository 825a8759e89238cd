package messages_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.opentelemetry.io/otel/propagation"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/examples/messages"
	"github.com/readroute/readroute/internal/dbtest"
)

const testTimeout = 60 * time.Second

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

var world struct {
	writer, reader *readroute.DB // of two processes; the replica stands still
	codec          *readroute.Codec
}

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	cluster, err := dbtest.StartPostgres(ctx, dbtest.PostgresOptions{Standbys: 1})
	if err != nil {
		return 1, err
	}
	defer func() { err = cluster.Close() }()
	if err := cluster.Primary().Exec(ctx, "CREATE TABLE written (id int)"); err != nil {
		return 1, err
	}
	for _, db := range []**readroute.DB{&world.writer, &world.reader} {
		*db, err = readroute.Open(readroute.Config{
			Primary:        readroute.Node{Name: "a", Connector: readroute.Postgres(cluster.Primary().DSN())},
			Replicas:       []readroute.Node{{Name: "b", Connector: readroute.Postgres(cluster.Standby(0).DSN())}},
			Strategy:       readroute.PositionWait(20 * time.Millisecond),
			CaptureTimeout: 10 * time.Second,
			MaxLag:         time.Hour,
		})
		if err != nil {
			return 1, err
		}
		defer (*db).Close()
		if err := (*db).WaitReady(ctx); err != nil {
			return 1, err
		}
	}
	world.codec, err = readroute.NewCodec(readroute.CodecConfig{
		Keys: []readroute.Key{{ID: "1", Secret: []byte(strings.Repeat("s", 32))}}, CaptureTimeout: 10 * time.Second,
	})
	if err != nil {
		return 1, err
	}
	if err := cluster.WaitCaughtUp(ctx); err != nil {
		return 1, err
	}
	if err := cluster.Standby(0).PauseReplay(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func write(t testing.TB, ctx context.Context, id int) {
	t.Helper()
	_, err := world.writer.ExecContext(ctx, "INSERT INTO written VALUES ($1)", id)
	require.NoError(t, err)
}

func count(t testing.TB, ctx context.Context, id int) (n int) {
	t.Helper()
	require.NoError(t, world.reader.QueryRowContext(ctx, "SELECT count(*) FROM written WHERE id = $1", id).Scan(&n))
	return n
}

func connect(t *testing.T) *nats.Conn {
	t.Helper()
	broker, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	require.NoError(t, err)
	go broker.Start()
	t.Cleanup(func() { broker.Shutdown(); broker.WaitForShutdown() })
	require.True(t, broker.ReadyForConnections(20*time.Second))
	conn, err := nats.Connect(broker.ClientURL())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// TestTokenOverNATS: a subscriber sees what the publisher has written, and a requester what the answering side has.
func TestTokenOverNATS(t *testing.T) {
	conn := connect(t)
	ctx := readroute.WithSession(testContext(t))
	counts := make(chan int, 1)
	_, err := conn.Subscribe("saved", messages.Handler(testContext(t), world.codec, func(ctx context.Context, _ *nats.Msg) {
		counts <- count(t, ctx, 1)
	}))
	require.NoError(t, err)
	write(t, ctx, 1)
	require.NoError(t, messages.Publish(ctx, world.codec, conn, "saved", nil))
	require.Equal(t, 1, <-counts)
	require.Zero(t, count(t, readroute.WithSession(testContext(t)), 1), "the replica stands still")

	_, err = conn.Subscribe("save", messages.Answering(testContext(t), world.codec, func(ctx context.Context, m *nats.Msg) []byte {
		write(t, ctx, 2)
		return m.Data
	}))
	require.NoError(t, err)
	ctx = readroute.WithSession(testContext(t))
	answer, err := messages.Ask(ctx, world.codec, conn, "save", []byte("x"))
	require.NoError(t, err)
	require.Equal(t, "x", string(answer))
	require.Equal(t, 1, count(t, ctx, 2))

	ctx = readroute.WithSession(testContext(t))
	_, err = messages.Ask(ctx, world.codec, conn, "nobody", nil)
	require.Error(t, err)
	require.Equal(t, 1, count(t, ctx, 2), "a lost answer asks for the primary")
}

// TestTokenOverKafka: the headers of records, one by one and a batch.
func TestTokenOverKafka(t *testing.T) {
	var batch []*kgo.Record
	for id := 10; id < 13; id++ {
		ctx := readroute.WithSession(testContext(t))
		write(t, ctx, id)
		r := &kgo.Record{Headers: []kgo.RecordHeader{{Key: "kind", Value: []byte("saved")}}}
		world.codec.Inject(ctx, messages.Kafka{Record: r})
		world.codec.Inject(ctx, messages.Kafka{Record: r})
		require.Len(t, r.Headers, 2)
		require.Equal(t, "saved", messages.Kafka{Record: r}.Get("kind"))
		require.Equal(t, 1, count(t, world.codec.Extract(testContext(t), messages.Kafka{Record: r}), id))
		batch = append(batch, r)
	}
	twice := &kgo.Record{Headers: append(slices.Clone(batch[0].Headers), batch[2].Headers...)}
	require.Equal(t, 1, count(t, world.codec.Extract(testContext(t), messages.Kafka{Record: twice}), 12))
	ctx := messages.Batch(testContext(t), world.codec, batch)
	for id := 10; id < 13; id++ {
		require.Equal(t, 1, count(t, ctx, id))
	}
}

// TestTokenOverOpenTelemetry: beside a trace, in whatever its propagators use.
func TestTokenOverOpenTelemetry(t *testing.T) {
	both := propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, messages.Propagator{Codec: world.codec})
	require.Contains(t, both.Fields(), readroute.DefaultTokenHeader)
	ctx := readroute.WithSession(testContext(t))
	write(t, ctx, 20)
	for _, carrier := range []propagation.TextMapCarrier{propagation.MapCarrier{}, propagation.HeaderCarrier(http.Header{})} {
		both.Inject(ctx, carrier)
		require.Equal(t, 1, count(t, both.Extract(testContext(t), carrier), 20))
	}
	require.Zero(t, count(t, both.Extract(testContext(t), propagation.MapCarrier{}), 20))

	renamed, err := readroute.NewCodec(readroute.CodecConfig{Unsigned: true, Header: "route"})
	require.NoError(t, err)
	require.Equal(t, []string{"route"}, messages.Propagator{Codec: renamed}.Fields())
}

// TestTokenOverOpenTelemetryAndMiddleware: instrumentation around the handler, inside of the middleware and outside of it, takes nothing
// away: the cookie's token counts, and what the handler writes goes back.
func TestTokenOverOpenTelemetryAndMiddleware(t *testing.T) {
	propagator := messages.Propagator{Codec: world.codec}
	instrumented := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))))
		})
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			write(t, r.Context(), 30)
		}
		fmt.Fprint(w, count(t, r.Context(), 30))
	})
	for name, h := range map[string]http.Handler{
		"inside":  world.codec.Middleware(instrumented(handler)),
		"outside": instrumented(world.codec.Middleware(handler)),
	} {
		t.Run(name, func(t *testing.T) {
			saved := httptest.NewRecorder()
			h.ServeHTTP(saved, httptest.NewRequestWithContext(testContext(t), http.MethodPost, "/", nil))
			require.Len(t, saved.Result().Cookies(), 1)
			r := httptest.NewRequestWithContext(testContext(t), http.MethodGet, "/", nil)
			r.AddCookie(saved.Result().Cookies()[0])
			shown := httptest.NewRecorder()
			h.ServeHTTP(shown, r)
			require.NotEqual(t, "0", shown.Body.String())
			require.Empty(t, shown.Result().Cookies())
		})
	}
}
