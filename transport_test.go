package readroute_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestTransportBetweenServices: what a second service writes for a request, the first one sees, and so does the client; and
// what the client has written before, the second one sees. The replicas stand still.
func TestTransportBetweenServices(t *testing.T) {
	bothHTTP(t, func(t *testing.T, http2 bool) {
		c := sharedCluster(t)
		codec := codecWith(t, "k1")
		inner := openShop(t, c, codec, http2)
		calls := &http.Client{
			Transport:     codec.Transport(inner.Client().Transport),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		count := func(ctx context.Context, w http.ResponseWriter) {
			var n int
			if err := inner.db.QueryRowContext(ctx, "SELECT count(*) FROM "+inner.table).Scan(&n); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			fmt.Fprint(w, n)
		}
		outer := serve(t, codec.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked, err := http.NewRequestWithContext(r.Context(), r.Method, inner.URL+"/?id="+r.URL.Query().Get("id"), nil)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			answer, err := calls.Do(asked)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			answer.Body.Close()
			if asked.Header.Get(readroute.DefaultTokenHeader) != "" {
				t.Error("the caller's request was changed")
			}
			count(r.Context(), w)
		})), http2)
		user := newBrowser(t, outer)
		pauseReplay(t, c)
		for n := 1; n <= 2; n++ {
			_, shown := user.do(t, http.MethodPost, fmt.Sprintf("/?id=%d", n))
			require.Equal(t, fmt.Sprint(n), shown)
			_, shown = user.do(t, http.MethodGet, fmt.Sprintf("/?id=%d", n))
			require.Equal(t, fmt.Sprint(n), shown)
		}
		inner.seen.take()
		user.do(t, http.MethodGet, "/?id=1")
		for _, d := range inner.seen.take() { // of both services
			require.Equal(t, readroute.RolePrimary, d.Role)
		}
	})
}

// TestTransportLostAnswers: after a request that may have written, and was not answered, the session reads from the
// primary. After one that only reads it does not.
func TestTransportLostAnswers(t *testing.T) {
	codec := codecWith(t, "k1")
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/504 of its own":
			w.Header().Set(readroute.DefaultTokenHeader, codec.Encode(craft(t, "main", 7, 1, 1)))
			w.WriteHeader(http.StatusGatewayTimeout)
		default:
			if status, err := strconv.Atoi(r.URL.Path[1:]); err == nil {
				w.WriteHeader(status)
			}
		}
	}), false)
	client := &http.Client{Transport: codec.Transport(s.Client().Transport)}
	ask := func(method, path string) (*readroute.Session, error) {
		ctx := readroute.WithSession(testContext(t))
		r, err := http.NewRequestWithContext(ctx, method, s.URL+path, nil)
		require.NoError(t, err)
		answer, err := client.Do(r)
		if err == nil {
			answer.Body.Close()
		}
		return readroute.SessionFrom(ctx), err
	}
	primary := func(s *readroute.Session) bool {
		token, err := s.Token(testContext(t))
		require.NoError(t, err)
		return token.Merge(readroute.PrimaryFor(time.Second)).String() == token.String() && !token.IsZero()
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, "MOVE"} {
		for path, lost := range map[string]bool{
			"/cut": true, "/502": true, "/503": true, "/504": true, "/520": true, "/521": true, "/522": true, "/523": true, "/524": true,
			"/500": false, "/501": false, "/519": false, "/525": false, "/429": false, "/": false, "/504%20of%20its%20own": false,
		} {
			session, err := ask(method, path)
			require.Equal(t, path == "/cut", err != nil)
			require.Equal(t, lost, primary(session), "%s %s", method, path)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace} {
		for _, path := range []string{"/cut", "/502", "/503", "/504", "/520"} {
			session, err := ask(method, path)
			require.Equal(t, path == "/cut", err != nil)
			require.False(t, primary(session), "%s %s", method, path)
		}
	}
	// Nothing has been listening there.
	gone := serve(t, http.NotFoundHandler(), false)
	gone.Close()
	ctx := readroute.WithSession(testContext(t))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, gone.URL, nil)
	require.NoError(t, err)
	_, err = codec.Transport(nil).RoundTrip(r)
	require.Error(t, err)
	require.True(t, primary(readroute.SessionFrom(ctx)))
}

// TestTransportWithoutSession: such a request passes as it is.
func TestTransportWithoutSession(t *testing.T) {
	codec := codecWith(t, "k1")
	var got []string
	s := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get(readroute.DefaultTokenHeader))
	}), false)
	client := &http.Client{Transport: codec.Transport(s.Client().Transport)}
	for _, ctx := range []context.Context{
		testContext(t),
		readroute.WithSession(testContext(t)),
		readroute.ContextWithSession(testContext(t), readroute.NewSession(craft(t, "main", 7, 1, 1))),
	} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		require.NoError(t, err)
		if len(got) == 2 {
			r.Header = nil // nothing that the transport may stumble over
		}
		answer, err := client.Transport.RoundTrip(r)
		require.NoError(t, err)
		answer.Body.Close()
	}
	client.CloseIdleConnections()
	require.Len(t, got, 3)
	require.Empty(t, got[0])
	require.Empty(t, got[1])
	token, err := codec.Decode(got[2])
	require.NoError(t, err)
	require.Equal(t, craftedText(t, token), craftedText(t, craft(t, "main", 7, 1, 1)))
}

// craftedText is the text of a token from its system on, past the time of the write.
func craftedText(t testing.TB, token readroute.Token) string {
	t.Helper()
	text := token.String()
	return text[len(text)-14:]
}
