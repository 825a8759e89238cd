package readroute_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestMiddlewareResponses: the token is there before the first byte, however the handler answers, and what the server can do
// the handler still can.
func TestMiddlewareResponses(t *testing.T) {
	write := func(r *http.Request) {
		readroute.SessionFrom(r.Context()).Merge(readroute.PrimaryFor(time.Minute))
	}
	control := http.NewResponseController
	for name, h := range map[string]struct {
		handler http.HandlerFunc
		status  int
		body    string
		http1   bool // only there
	}{
		"implicit 200": {func(http.ResponseWriter, *http.Request) {}, 200, "", false},
		"implicit 200 with a body": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "body")
		}, 200, "body", false},
		"an empty write": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil) }, 200, "", false},
		"redirect":       {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusSeeOther) }, 303, "", false},
		"error":          {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusConflict) }, 409, "no\n", false},
		"no content":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, 204, "", false},
		"strings":        {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "body") }, 200, "body", false},
		"a reader":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("body")) }, 200, "body", false},
		"a reader that cannot write itself": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader("body")})
		}, 200, "body", false},
		"early hints": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</a.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTeapot)
		}, 418, "", false},
		"a stream": {func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				fmt.Fprint(w, "a")
				w.(http.Flusher).Flush()
			}
		}, 200, "aaa", false},
		"flush before all": {func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "a")
		}, 200, "a", false},
		"the controller's flush": {func(w http.ResponseWriter, _ *http.Request) {
			if err := control(w).Flush(); err != nil {
				panic(err)
			}
			fmt.Fprint(w, "a")
		}, 200, "a", false},
		"the controller's deadlines": {func(w http.ResponseWriter, _ *http.Request) {
			if err := errors.Join(control(w).SetWriteDeadline(time.Now().Add(time.Minute)), control(w).SetReadDeadline(time.Now().Add(time.Minute))); err != nil {
				panic(err)
			}
		}, 200, "", false},
		"a file": {func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "LICENSE") }, 200, string(readFile(t, "LICENSE")), false},
		"time is up": {func(w http.ResponseWriter, r *http.Request) {
			http.TimeoutHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), time.Millisecond, "late").ServeHTTP(w, r)
		}, 503, "late", false},
		"a panic that somebody answers": {func(http.ResponseWriter, *http.Request) { panic("oh") }, 500, "oh", false},
		"hijack": {func(w http.ResponseWriter, _ *http.Request) {
			conn, buf, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			answer(buf, w.Header())
			_ = conn.Close()
		}, 101, "", true},
		"the controller's hijack": {func(w http.ResponseWriter, _ *http.Request) {
			conn, buf, err := control(w).Hijack()
			if err != nil {
				panic(err)
			}
			answer(buf, w.Header())
			_ = conn.Close()
		}, 101, "", true},
		"switching protocols": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "x")
			w.WriteHeader(http.StatusSwitchingProtocols)
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			_ = conn.Close()
		}, 101, "", true},
	} {
		bothHTTP(t, func(t *testing.T, http2 bool) {
			if http2 && h.http1 {
				return
			}
			t.Run(name, func(t *testing.T) {
				late := false
				codec, err := readroute.NewCodec(readroute.CodecConfig{Unsigned: true, OnLateWrite: func(context.Context) { late = true }})
				require.NoError(t, err)
				for _, writes := range []bool{true, false} {
					s := serve(t, recovering(codec.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if writes {
							write(r)
						}
						h.handler(w, r)
					}))), http2)
					r, err := http.NewRequestWithContext(testContext(t), http.MethodPost, s.URL, nil)
					require.NoError(t, err)
					answer, err := s.Client().Transport.RoundTrip(r)
					require.NoError(t, err)
					require.Equal(t, h.status, answer.StatusCode)
					if answer.StatusCode != http.StatusSwitchingProtocols {
						body, err := io.ReadAll(answer.Body)
						require.NoError(t, err)
						require.Equal(t, h.body, string(body))
					}
					require.NoError(t, answer.Body.Close())
					_, err = codec.Decode(answer.Header.Get(readroute.DefaultTokenHeader))
					require.NoError(t, err)
					require.Equal(t, writes, answer.Header.Get(readroute.DefaultTokenHeader) != "")
					require.Len(t, answer.Cookies(), map[bool]int{true: 1, false: 0}[writes])
					require.Equal(t, http2, answer.ProtoMajor == 2)
					s.Close() // and with it the handler
					require.False(t, late)
				}
			})
		})
	}
}

// answer switches protocols by hand.
func answer(buf *bufio.ReadWriter, h http.Header) {
	fmt.Fprint(buf, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n")
	_ = h.Write(buf)
	fmt.Fprint(buf, "\r\n")
	_ = buf.Flush()
}

// recovering answers for a handler that panics, as the middleware of routers does.
func recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // a panic's value
				w.WriteHeader(http.StatusInternalServerError)
				fmt.Fprint(w, v)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// TestMiddlewareEarlyHints: they go out before the first byte of the response, and what is written after them is in the token.
func TestMiddlewareEarlyHints(t *testing.T) {
	bothHTTP(t, func(t *testing.T, http2 bool) {
		codec := unsigned(t)
		s := serve(t, codec.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</a.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			readroute.SessionFrom(r.Context()).Merge(readroute.PrimaryFor(time.Minute))
			w.WriteHeader(http.StatusOK)
		})), http2)
		hints := 0
		ctx := httptrace.WithClientTrace(testContext(t), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			hints++
			require.Empty(t, h.Get(readroute.DefaultTokenHeader))
			return nil
		}})
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		require.NoError(t, err)
		answer, err := s.Client().Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, 1, hints)
		require.Len(t, answer.Cookies(), 1)
	})
}

// TestMiddlewareOffersWhatTheServerDoes: no more, no less.
func TestMiddlewareOffersWhatTheServerDoes(t *testing.T) {
	type bare struct{ http.ResponseWriter }
	type (
		f struct{ http.Flusher }
		h struct{ http.Hijacker }
		p struct{ http.Pusher }
	)
	rec := httptest.NewRecorder()
	for _, w := range []http.ResponseWriter{
		bare{rec},
		struct {
			bare
			f
		}{bare: bare{rec}},
		struct {
			bare
			h
		}{bare: bare{rec}},
		struct {
			bare
			p
		}{bare: bare{rec}},
		struct {
			bare
			f
			h
		}{bare: bare{rec}},
		struct {
			bare
			f
			p
		}{bare: bare{rec}},
		struct {
			bare
			h
			p
		}{bare: bare{rec}},
		struct {
			bare
			f
			h
			p
		}{bare: bare{rec}},
	} {
		unsigned(t).Middleware(http.HandlerFunc(func(got http.ResponseWriter, r *http.Request) {
			_, want := w.(http.Flusher)
			_, is := got.(http.Flusher)
			require.Equal(t, want, is, "%T", w)
			_, want = w.(http.Hijacker)
			_, is = got.(http.Hijacker)
			require.Equal(t, want, is, "%T", w)
			_, want = w.(http.Pusher)
			_, is = got.(http.Pusher)
			require.Equal(t, want, is, "%T", w)
			for got != w {
				got = got.(interface{ Unwrap() http.ResponseWriter }).Unwrap()
			}
		})).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	}
}

// TestMiddlewareInAWrapper: a response that somebody has wrapped, and that offers nothing itself but the one in it, keeps no token back.
func TestMiddlewareInAWrapper(t *testing.T) {
	codec := unsigned(t)
	for name, handler := range map[string]http.HandlerFunc{
		"the controller's hijack": func(w http.ResponseWriter, _ *http.Request) {
			conn, buf, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			answer(buf, w.Header())
			_ = conn.Close()
		},
		"the controller's flush": func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).Flush(); err != nil {
				panic(err)
			}
		},
		"flush": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			answer := serveOnce(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				codec.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					readroute.SessionFrom(r.Context()).Merge(readroute.PrimaryFor(time.Minute))
					handler(w, r)
				})).ServeHTTP(unwrapped{unwrapped{w, w}, w}, r)
			}))
			require.Len(t, answer.Cookies(), 1)
		})
	}
}

// unwrapped is a response with nothing of its own.
type unwrapped struct {
	http.ResponseWriter
	in http.ResponseWriter
}

func (u unwrapped) Unwrap() http.ResponseWriter { return u.in }

// TestMiddlewareIsPrivate: no cache that many share keeps a response with a token, with cookies and without; one that wrote nothing is
// as its handler has made it.
func TestMiddlewareIsPrivate(t *testing.T) {
	for _, cookie := range []string{"", "-"} {
		codec, err := readroute.NewCodec(readroute.CodecConfig{Unsigned: true, Cookie: cookie})
		require.NoError(t, err)
		for set, want := range map[string][]string{
			"":                    {"private"},
			"public, max-age=60":  {"public, max-age=60", "private"},
			"Private, max-age=60": {"Private, max-age=60"},
			"no-store":            {"no-store"},
		} {
			for _, writes := range []bool{true, false} {
				answer := serveOnce(t, codec.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if set != "" {
						w.Header().Set("Cache-Control", set)
					}
					if writes {
						readroute.SessionFrom(r.Context()).Merge(readroute.PrimaryFor(time.Minute))
					}
				})))
				if !writes {
					require.Equal(t, set, strings.Join(answer.Header.Values("Cache-Control"), "; "))
					continue
				}
				require.Equal(t, want, answer.Header.Values("Cache-Control"))
			}
		}
	}
}

// TestMiddlewareCloseNotify: gin's streams listen for it.
func TestMiddlewareCloseNotify(t *testing.T) {
	ctx, cancel := context.WithCancel(testContext(t))
	gone := make(chan bool)
	s := serve(t, unsigned(t).Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		notify := w.(interface{ CloseNotify() <-chan bool }).CloseNotify()
		cancel()
		gone <- <-notify
	})), true)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	require.NoError(t, err)
	go func() {
		if answer, err := s.Client().Do(r); err == nil {
			answer.Body.Close()
		}
	}()
	require.True(t, <-gone)
}

// TestMiddlewareLateWrite: a write after the first byte is told to OnLateWrite, on one before it the client is told.
func TestMiddlewareLateWrite(t *testing.T) {
	var late atomic.Int32
	codec, err := readroute.NewCodec(readroute.CodecConfig{Unsigned: true, OnLateWrite: func(ctx context.Context) {
		if readroute.SessionFrom(ctx) != nil {
			late.Add(1)
		}
	}})
	require.NoError(t, err)
	for _, begin := range []func(w http.ResponseWriter){
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) },
		func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
		func(w http.ResponseWriter) { fmt.Fprint(w, "a") },
	} {
		late.Store(0)
		answer := serveOnce(t, codec.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			begin(w)
			readroute.SessionFrom(r.Context()).Merge(readroute.PrimaryFor(time.Minute))
		})))
		require.Empty(t, answer.Cookies())
		eventually(t, "the hook is called", func() bool { return late.Load() == 1 })
	}
}

// shopBehind is a shop whose pool reaches the primary through a proxy.
func shopBehind(t *testing.T, codec *readroute.Codec) (*shop, *dbtest.Proxy) {
	t.Helper()
	c := sharedCluster(t)
	proxy, err := dbtest.NewProxy(c.Primary().Addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	s := openShop(t, c, codec, false, func(config *readroute.Config) {
		config.Primary.Connector = readroute.Postgres(c.Primary().DSNVia(proxy))
		config.ProbeInterval = time.Hour // no round trip but those of statements and captures
		config.ProbeTimeout = 10 * time.Second
		config.CatalogueInterval = -1
	})
	return s, proxy
}

// TestMiddlewareRoundTrips: a request that wrote nothing costs none, one that wrote one, however often it wrote.
func TestMiddlewareRoundTrips(t *testing.T) {
	s, proxy := shopBehind(t, codecWith(t, "k1"))
	var captures atomic.Int32
	proxy.OnClientData(func(data []byte) dbtest.Verdict {
		if strings.Contains(string(data), "pg_current_wal_insert_lsn") || strings.Contains(string(data), "readroute_probe") {
			captures.Add(1)
		}
		return dbtest.Forward
	})
	handler := func(writes int) http.Handler {
		return codecWith(t, "k1").Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			for range writes {
				if _, err := s.db.ExecContext(r.Context(), "INSERT INTO "+s.table+" VALUES (1)"); err != nil {
					t.Error(err)
				}
			}
		}))
	}
	for range 3 { // until the question is prepared
		serveOnce(t, handler(1))
	}
	captures.Store(0)
	for range 20 {
		require.Empty(t, serveOnce(t, handler(0)).Cookies())
	}
	require.Zero(t, captures.Load())
	for range 5 {
		require.Len(t, serveOnce(t, handler(1)).Cookies(), 1)
		require.EqualValues(t, 1, captures.Swap(0))
	}
	require.Len(t, serveOnce(t, handler(10)).Cookies(), 1)
	require.LessOrEqual(t, captures.Load(), int32(2), "one that began before the last write, and one that covers it")
}

// TestMiddlewareCaptureTimeout: a primary that says nothing any more holds the first byte up for CaptureTimeout, and the
// token that goes out asks for the primary.
func TestMiddlewareCaptureTimeout(t *testing.T) {
	codec, err := readroute.NewCodec(readroute.CodecConfig{Keys: []readroute.Key{testKey("k1")}, CaptureTimeout: 100 * time.Millisecond})
	require.NoError(t, err)
	s, proxy := shopBehind(t, codec)
	var took time.Duration
	answer := serveOnce(t, codec.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.db.ExecContext(r.Context(), "INSERT INTO "+s.table+" VALUES (1)"); err != nil {
			t.Error(err)
		}
		_, err := s.db.ExecContext(r.Context(), "INSERT INTO "+s.table+" VALUES (1)")
		proxy.Stall(true)
		if err != nil {
			t.Error(err)
		}
		began := time.Now()
		w.WriteHeader(http.StatusOK)
		took = time.Since(began)
	})))
	require.Len(t, answer.Cookies(), 1)
	require.Less(t, took, 5*time.Second)
	token, err := codec.Decode(answer.Cookies()[0].Value)
	require.NoError(t, err)
	proxy.Stall(false)
	ctx := readroute.ContextWithSession(testContext(t), readroute.NewSession(token))
	s.seen.take()
	require.Equal(t, 2, countIn(t, ctx, s.db, s.table))
	d := s.seen.one(t)
	require.Equal(t, readroute.RolePrimary, d.Role)
	t.Log(took, d.Reason)
}

// TestMiddlewareClientGone: nobody waits for a position that nobody will be told.
func TestMiddlewareClientGone(t *testing.T) {
	codec, err := readroute.NewCodec(readroute.CodecConfig{Keys: []readroute.Key{testKey("k1")}, CaptureTimeout: time.Hour})
	require.NoError(t, err)
	s, proxy := shopBehind(t, codec)
	done := make(chan time.Duration, 1)
	service := serve(t, codec.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.db.ExecContext(r.Context(), "INSERT INTO "+s.table+" VALUES (1)"); err != nil {
			t.Error(err)
		}
		proxy.Stall(true)
		<-r.Context().Done()
		began := time.Now()
		w.WriteHeader(http.StatusOK)
		done <- time.Since(began)
	})), false)
	ctx, cancel := context.WithTimeout(testContext(t), time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, service.URL, nil)
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		if answer, err := service.Client().Do(r); err == nil {
			answer.Body.Close()
		}
	})
	require.Less(t, <-done, 10*time.Second)
	proxy.Stall(false)
	wg.Wait()
}

// TestK5_16_ForgedTokensOverHTTP: bad tokens cost no wait, and no read on the primary beyond their own requests.
func TestK5_16_ForgedTokensOverHTTP(t *testing.T) {
	c := sharedCluster(t)
	s := openShop(t, c, codecWith(t, "k1"), true, patient)
	forged := codecWith(t, "k2").Encode(craft(t, "main", 7, 1, 1<<60))
	s.seen.take()
	const clients, requests = 8, 50
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range requests {
				r, _ := http.NewRequestWithContext(testContext(t), http.MethodGet, s.URL+"/?id=1", nil)
				r.Header.Set(readroute.DefaultTokenHeader, forged)
				answer, err := s.Client().Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				answer.Body.Close()
				if answer.StatusCode != http.StatusOK {
					t.Errorf("status %d", answer.StatusCode)
				}
			}
		})
	}
	wg.Wait()
	seen := s.seen.take()
	require.Len(t, seen, clients*requests)
	for _, d := range seen {
		require.Equal(t, readroute.ReasonSticky, d.Reason)
		require.Zero(t, d.Waited)
	}
	newBrowser(t, s.Server).do(t, http.MethodGet, "/?id=1")
	require.Equal(t, readroute.RoleReplica, s.seen.one(t).Role)
}

func BenchmarkMiddleware(b *testing.B) {
	codec := codecWith(b, "k1")
	for name, h := range map[string]http.Handler{
		"bare":       http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		"no token":   codec.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})),
		"reads":      codec.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})),
		"told":       codec.Middleware(told(craft(b, "main", 7, 1, 1<<40))),
		"bad tokens": codec.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})),
	} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
			switch name {
			case "reads":
				r.AddCookie(&http.Cookie{Name: "readroute-1", Value: codec.Encode(craft(b, "main", 7, 1, 1<<40))})
			case "bad tokens":
				r.AddCookie(&http.Cookie{Name: "readroute-1", Value: "bad"})
			}
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(&discard{header: http.Header{}}, r)
			}
		})
	}
}

// discard is a response that nobody reads.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
