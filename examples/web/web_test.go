package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

const testTimeout = 60 * time.Second

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// TestMiddlewareOfRouters: under each router a browser sees what it has saved, while the replica stands still: after a redirect, a
// stream of parts and a panic that the router answers, over HTTP 1 and 2.
func TestMiddlewareOfRouters(t *testing.T) {
	cluster := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1})
	db, err := readroute.Open(readroute.Config{
		Primary:        readroute.Node{Name: "a", Connector: readroute.Postgres(cluster.Primary().DSN())},
		Replicas:       []readroute.Node{{Name: "b", Connector: readroute.Postgres(cluster.Standby(0).DSN())}},
		Strategy:       readroute.PositionWait(20 * time.Millisecond),
		CaptureTimeout: 10 * time.Second,
		MaxLag:         time.Hour,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.WaitReady(testContext(t)))
	require.NoError(t, cluster.Primary().Exec(testContext(t), schema))
	require.NoError(t, cluster.WaitCaughtUp(testContext(t)))
	require.NoError(t, cluster.Standby(0).PauseReplay(testContext(t)))
	codec, err := readroute.NewCodec(readroute.CodecConfig{
		Keys:           []readroute.Key{{ID: "1", Secret: []byte(strings.Repeat("s", 32))}},
		CaptureTimeout: 10 * time.Second,
	})
	require.NoError(t, err)
	for _, name := range slices.Sorted(maps.Keys(routers)) {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP 2 %v", name, http2), func(t *testing.T) {
				service := httptest.NewUnstartedServer(routers[name](codec, &notes{db: db}))
				service.EnableHTTP2 = http2
				service.StartTLS()
				t.Cleanup(service.Close)
				user := browser{service.Client(), service.URL}
				user.Jar, _ = cookiejar.New(nil)

				answer, shown := user.post(t, "/notes")
				require.Equal(t, http.StatusOK, answer.StatusCode, shown)
				require.Equal(t, "hello, world", shown)
				page := answer.Request.URL.Path
				for range 2 {
					answer, shown = user.get(t, page)
					require.Equal(t, "hello, world", shown)
					require.Empty(t, answer.Header.Values("Set-Cookie"))
				}
				stranger := browser{&http.Client{Transport: user.Transport}, service.URL}
				answer, _ = stranger.get(t, page)
				require.Equal(t, http.StatusNotFound, answer.StatusCode, "the replica stands still")

				answer, page = user.post(t, "/stream")
				require.Equal(t, http.StatusOK, answer.StatusCode)
				require.Len(t, answer.Cookies(), 2, "its own, and the end of the one before")
				require.Empty(t, answer.Header.Get("Content-Length"))
				_, shown = user.get(t, page)
				require.Equal(t, "hello, world", shown)

				if name == "net/http" {
					return // which answers for nobody that panics
				}
				answer, _ = user.post(t, "/panic")
				require.Equal(t, http.StatusInternalServerError, answer.StatusCode)
				require.Len(t, answer.Cookies(), 2)
			})
		}
	}
}

type browser struct {
	*http.Client
	base string
}

func (b *browser) post(t *testing.T, path string) (*http.Response, string) {
	t.Helper()
	form := strings.NewReader(url.Values{"text": {"hello, world"}}.Encode())
	r, err := http.NewRequestWithContext(testContext(t), http.MethodPost, b.base+path, form)
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.do(t, r)
}

func (b *browser) get(t *testing.T, path string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(testContext(t), http.MethodGet, b.base+path, nil)
	require.NoError(t, err)
	return b.do(t, r)
}

func (b *browser) do(t *testing.T, r *http.Request) (*http.Response, string) {
	t.Helper()
	answer, err := b.Do(r)
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer, string(body)
}

func TestProgram(t *testing.T) {
	cluster := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Standbys: 1})
	primary, replica := cluster.Primary().DSN(), cluster.Standby(0).DSN()
	require.ErrorContains(t, run(testContext(t), "", "rails", primary, replica, ""), "unknown router")
	require.ErrorIs(t, run(testContext(t), "", "chi", primary, replica, "short"), readroute.ErrBadConfig)
	ctx, cancel := context.WithTimeout(testContext(t), 3*time.Second)
	defer cancel()
	require.NoError(t, run(ctx, "127.0.0.1:0", "chi", primary, replica, strings.Repeat("s", 32)))
}
