package readroute_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// shop is a service over a routed pool: it saves ids and shows how often it has each.
type shop struct {
	*httptest.Server
	db    *readroute.DB
	table string
	seen  *decisions
}

// openShop starts a service with a middleware, over TLS as browsers need it for secure cookies.
func openShop(t testing.TB, c *dbtest.PostgresCluster, codec *readroute.Codec, http2 bool, edit ...func(*readroute.Config)) *shop {
	t.Helper()
	s := &shop{table: newTable(t, c, "id int")}
	config := configFor(c)
	quick(&config)
	config.CaptureTimeout = 10 * time.Second
	for _, f := range edit {
		f(&config)
	}
	s.seen = record(&config)
	s.db = open(t, config)
	s.Server = serve(t, codec.Middleware(s), http2)
	return s
}

func serve(t testing.TB, h http.Handler, http2 bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = http2
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP saves on POST and redirects; it shows on GET.
func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	if r.Method == http.MethodPost {
		if _, err := s.db.ExecContext(r.Context(), "INSERT INTO "+s.table+" VALUES ($1)", id); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		http.Redirect(w, r, "/?id="+id, http.StatusSeeOther)
		return
	}
	var n int
	err := s.db.QueryRowContext(r.Context(), "SELECT count(*) FROM "+s.table+" WHERE id = $1", id).Scan(&n)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, n)
}

// browser is a client that keeps cookies and follows redirects, with cookies.
type browser struct {
	*http.Client
	base *url.URL
}

func newBrowser(t testing.TB, s *httptest.Server) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	base, err := url.Parse(s.URL)
	require.NoError(t, err)
	client := *s.Client()
	client.Jar = jar
	return &browser{Client: &client, base: base}
}

// tokens are the cookies that a codec has set, in the order of their names.
func (b *browser) tokens() []string {
	var names []string
	for _, c := range b.Jar.Cookies(b.base) {
		if strings.HasPrefix(c.Name, readroute.DefaultTokenCookie+"-") {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

// do returns the answer with its body.
func (b *browser) do(t testing.TB, method, path string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(testContext(t), method, b.base.String()+path, nil)
	require.NoError(t, err)
	answer, err := b.Do(r)
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s", body)
	return answer, string(body)
}

func bothHTTP(t *testing.T, f func(t *testing.T, http2 bool)) {
	t.Run("HTTP 1", func(t *testing.T) { f(t, false) })
	t.Run("HTTP 2", func(t *testing.T) { f(t, true) })
}

// TestK5_20_RedirectThenAnotherRequest: a user who saves sees it on the page that the redirect leads to, on the next one,
// and on all that follow while the replicas stand still.
func TestK5_20_RedirectThenAnotherRequest(t *testing.T) {
	bothHTTP(t, func(t *testing.T, http2 bool) {
		c := sharedCluster(t)
		s := openShop(t, c, codecWith(t, "k1"), http2)
		user, other := newBrowser(t, s.Server), newBrowser(t, s.Server)
		pauseReplay(t, c)
		answer, shown := user.do(t, http.MethodPost, "/?id=1")
		require.Equal(t, "1", shown)
		require.Equal(t, http2, answer.ProtoMajor == 2)
		for range 3 {
			answer, shown = user.do(t, http.MethodGet, "/?id=1")
			require.Equal(t, "1", shown)
			require.Empty(t, answer.Header.Values("Set-Cookie"), "a response that wrote nothing sets nothing")
			require.Empty(t, answer.Header.Get(readroute.DefaultTokenHeader))
		}
		_, shown = other.do(t, http.MethodGet, "/?id=1")
		require.Equal(t, "0", shown, "the replicas stand still, or this test proves nothing")
		require.Empty(t, other.tokens())

		require.Len(t, user.tokens(), 1)
		resumeReplay(t, c)
		eventually(t, "a replica serves the user", func() bool {
			s.seen.take()
			_, shown := user.do(t, http.MethodGet, "/?id=1")
			require.Equal(t, "1", shown)
			return s.seen.one(t).Role == readroute.RoleReplica
		})
	})
}

// held is a transport that keeps an answer back until it is let go.
type held struct {
	http.RoundTripper
	arrived, free chan struct{}
}

func (h *held) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := h.RoundTripper.RoundTrip(r)
	if r.Header.Get("Hold") != "" {
		close(h.arrived)
		<-h.free
	}
	return answer, err
}

// TestMiddlewareOverlappingResponses: two writes of one browser, the answer to the earlier one comes last. The replicas have the earlier
// one and not the later: a cookie that took the other's place would be read by. Nothing is stale, and the cookies become one again.
func TestMiddlewareOverlappingResponses(t *testing.T) {
	bothHTTP(t, func(t *testing.T, http2 bool) {
		c := sharedCluster(t)
		s := openShop(t, c, codecWith(t, "k1"), http2)
		user := newBrowser(t, s.Server)
		user.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		h := &held{user.Transport, make(chan struct{}), make(chan struct{})}
		user.Transport = h
		post := func(id int, hold string) []*http.Cookie {
			r, err := http.NewRequestWithContext(testContext(t), http.MethodPost, fmt.Sprintf("%s/?id=%d", s.URL, id), nil)
			require.NoError(t, err)
			r.Header.Set("Hold", hold)
			answer, err := user.Do(r)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, http.StatusSeeOther, answer.StatusCode)
			return answer.Cookies()
		}
		var wg sync.WaitGroup
		wg.Go(func() { post(1, "yes") })
		<-h.arrived // with the smaller token
		pauseReplay(t, c)
		post(2, "")
		close(h.free)
		wg.Wait()

		require.Len(t, user.tokens(), 2)
		_, shown := newBrowser(t, s.Server).do(t, http.MethodGet, "/?id=1")
		require.Equal(t, "1", shown, "the replicas have the earlier write")
		for id := 1; id <= 2; id++ {
			_, shown := user.do(t, http.MethodGet, fmt.Sprintf("/?id=%d", id))
			require.Equal(t, "1", shown)
		}
		post(3, "")
		require.Len(t, user.tokens(), 1)
		for id := 1; id <= 3; id++ {
			_, shown := user.do(t, http.MethodGet, fmt.Sprintf("/?id=%d", id))
			require.Equal(t, "1", shown)
		}
	})
}

// TestMiddlewareMergesCookies: a request's session needs what the largest of its cookies asks for, in whatever order they come.
func TestMiddlewareMergesCookies(t *testing.T) {
	codec := codecWith(t, "k1")
	low, high, other := craft(t, "main", 7, 1, 5), craft(t, "main", 7, 1, 9), craft(t, "other", 7, 1, 3)
	want := low.Merge(high).Merge(other).String()
	for _, order := range [][]readroute.Token{{low, high, other}, {high, low, other}, {other, high, low}} {
		r := httptest.NewRequestWithContext(testContext(t), http.MethodGet, "/", nil)
		for i, token := range order {
			r.AddCookie(&http.Cookie{Name: fmt.Sprintf("readroute-%d", i), Value: codec.Encode(token)})
		}
		asked := false
		codec.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked = true
			require.Equal(t, want, tokenOf(t, r.Context()).String())
		})).ServeHTTP(httptest.NewRecorder(), r)
		require.True(t, asked)
	}
}

// TestMiddlewareCookiesAreFew: while the replicas stand still, however many writes a browser makes, the cookies are no more than twice the requests that it
// has under way, and one when they are over.
func TestMiddlewareCookiesAreFew(t *testing.T) {
	c := sharedCluster(t)
	s := openShop(t, c, codecWith(t, "k1"), true)
	user := newBrowser(t, s.Server)
	pauseReplay(t, c)
	const workers, writes = 6, 20
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := range writes {
				id := worker*writes + i
				answer, err := user.Post(fmt.Sprintf("%s/?id=%d", s.URL, id), "", nil)
				if err != nil {
					t.Error(err)
					return
				}
				body, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				if string(body) != "1" {
					t.Errorf("id %d was saved and is shown %s times", id, body)
				}
				if n := len(user.tokens()); n > 2*workers {
					t.Errorf("%d cookies", n)
				}
			}
		})
	}
	wg.Wait()
	user.do(t, http.MethodPost, "/?id=-1")
	require.Len(t, user.tokens(), 1)
}

// TestMiddlewareCookie: the flags are right, and what EditCookie does it does to what is deleted as well.
func TestMiddlewareCookie(t *testing.T) {
	told := told(readroute.PrimaryFor(time.Minute))
	answer := serveOnce(t, codecWith(t, "k1").Middleware(told), nil)
	require.Len(t, answer.Cookies(), 1)
	cookie := answer.Cookies()[0]
	require.Regexp(t, `^readroute-[0-9a-z]+$`, cookie.Name)
	require.True(t, cookie.Secure)
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteLaxMode, cookie.SameSite)
	require.Equal(t, "/", cookie.Path)
	require.Empty(t, cookie.Domain)
	require.Equal(t, 300, cookie.MaxAge)
	require.Greater(t, time.Duration(cookie.MaxAge)*time.Second, readroute.DefaultMaxLag)
	require.Equal(t, cookie.Value, answer.Header.Get(readroute.DefaultTokenHeader))

	config := readroute.CodecConfig{Unsigned: true, Cookie: "rr", MaxAge: -1, EditCookie: func(c *http.Cookie) {
		c.Name, c.Value, c.Domain, c.Path, c.Secure, c.MaxAge = "x", "y", "example.org", "/app", false, 7
	}}
	codec, err := readroute.NewCodec(config)
	require.NoError(t, err)
	answer = serveOnce(t, codec.Middleware(told), &http.Cookie{Name: "rr-1", Value: codec.Encode(readroute.PrimaryFor(time.Second))})
	require.Len(t, answer.Cookies(), 2)
	for _, c := range answer.Cookies() {
		require.True(t, strings.HasPrefix(c.Name, "rr-"))
		require.NotEqual(t, "y", c.Value)
		require.Equal(t, "example.org", c.Domain)
		require.Equal(t, "/app", c.Path)
		require.False(t, c.Secure)
		if c.Name == "rr-1" {
			require.Negative(t, c.MaxAge)
			require.Empty(t, c.Value)
		} else {
			require.Equal(t, 7, c.MaxAge)
		}
	}

	config.Cookie = "-"
	codec, err = readroute.NewCodec(config)
	require.NoError(t, err)
	answer = serveOnce(t, codec.Middleware(told), nil)
	require.Empty(t, answer.Cookies())
	require.NotEmpty(t, answer.Header.Get(readroute.DefaultTokenHeader))
}

// told is a handler whose session is told of a write elsewhere.
func told(token readroute.Token) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { readroute.SessionFrom(r.Context()).Merge(token) })
}

// serveOnce gives a handler one request with cookies.
func serveOnce(t testing.TB, h http.Handler, cookies ...*http.Cookie) *http.Response {
	t.Helper()
	s := serve(t, h, false)
	r, err := http.NewRequestWithContext(testContext(t), http.MethodPost, s.URL, nil)
	require.NoError(t, err)
	for _, c := range cookies {
		if c != nil {
			r.AddCookie(c)
		}
	}
	answer, err := s.Client().Transport.RoundTrip(r)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer
}

// TestMiddlewareDeletesOnlyWhatItHasRead: a cookie that is bad here may be good for a process that has its key.
func TestMiddlewareDeletesOnlyWhatItHasRead(t *testing.T) {
	codec := codecWith(t, "k1")
	good := &http.Cookie{Name: "readroute-good", Value: codec.Encode(readroute.PrimaryFor(time.Second))}
	bad := &http.Cookie{Name: "readroute-bad", Value: codecWith(t, "k2").Encode(readroute.PrimaryFor(time.Second))}
	foreign := &http.Cookie{Name: "readroutex", Value: "x"}
	answer := serveOnce(t, codec.Middleware(told(readroute.PrimaryFor(4*time.Minute))), good, bad, foreign)
	require.Len(t, answer.Cookies(), 2)
	for _, c := range answer.Cookies() {
		require.NotEqual(t, bad.Name, c.Name)
		require.NotEqual(t, foreign.Name, c.Name)
	}
	idle := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	require.Empty(t, serveOnce(t, codec.Middleware(idle), good, bad, foreign).Header.Values("Set-Cookie"))
}

// TestMiddlewareBadToken: a request with a bad token reads from the primary, with one in the header as with one in a cookie,
// however many there are, and whatever else is good; unless OnBadToken says otherwise.
func TestMiddlewareBadToken(t *testing.T) {
	c := sharedCluster(t)
	codec := codecWith(t, "k1")
	s := openShop(t, c, codec, false)
	ask := func(s *httptest.Server, edit func(h http.Header)) {
		t.Helper()
		r, err := http.NewRequestWithContext(testContext(t), http.MethodGet, s.URL+"/?id=1", nil)
		require.NoError(t, err)
		edit(r.Header)
		answer, err := s.Client().Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Empty(t, answer.Header.Values("Set-Cookie"))
		require.Empty(t, answer.Header.Get(readroute.DefaultTokenHeader))
	}
	good := codec.Encode(craft(t, "other", 1, 1, 1))
	for name, edit := range map[string]func(h http.Header){
		"in the header":        func(h http.Header) { h.Set(readroute.DefaultTokenHeader, "bad") },
		"in the second header": func(h http.Header) { h[http.CanonicalHeaderKey(readroute.DefaultTokenHeader)] = []string{good, "bad"} },
		"in a cookie":          func(h http.Header) { h.Set("Cookie", "readroute-1=bad") },
		"in one of many":       func(h http.Header) { h.Set("Cookie", "a=b; readroute-1="+good+"; readroute-2=bad; c=d") },
		"too many": func(h http.Header) {
			h.Set("Cookie", strings.Repeat("readroute-1="+good+";", 65))
		},
	} {
		s.seen.take()
		ask(s.Server, edit)
		d := s.seen.one(t)
		require.Equal(t, readroute.RolePrimary, d.Role, name)
		require.Equal(t, readroute.ReasonSticky, d.Reason, name)
		require.Zero(t, d.Waited, name)
	}
	s.seen.take()
	ask(s.Server, func(h http.Header) { h.Set("Cookie", strings.Repeat("readroute-1="+good+";", 64)+"readroute=x") })
	require.Equal(t, readroute.RoleReplica, s.seen.one(t).Role)

	var heard []error
	lenient, err := readroute.NewCodec(readroute.CodecConfig{Keys: []readroute.Key{testKey("k1")}, OnBadToken: func(ctx context.Context, err error) readroute.Token {
		require.NotNil(t, ctx)
		heard = append(heard, err)
		return readroute.Token{}
	}})
	require.NoError(t, err)
	ask(serve(t, lenient.Middleware(s), false), func(h http.Header) { h.Set(readroute.DefaultTokenHeader, "bad") })
	require.Equal(t, readroute.RoleReplica, s.seen.one(t).Role)
	require.Len(t, heard, 1)
	require.ErrorIs(t, heard[0], readroute.ErrBadToken)
	heard = nil
	ask(serve(t, lenient.Middleware(s), false), func(h http.Header) { h.Set("Cookie", strings.Repeat("readroute-1=bad;", 1000)) })
	require.Len(t, heard, 65, "no more than 64 are looked at")
}

// TestMiddlewareFenceSetsNothing: a request that only fences has written nothing; one that writes as well hands out all of it.
func TestMiddlewareFenceSetsNothing(t *testing.T) {
	c := sharedCluster(t)
	codec := codecWith(t, "k1")
	for name, edit := range map[string]func(*readroute.Config){
		"positions": patient,
		"sticky":    func(config *readroute.Config) { config.Strategy = readroute.Sticky(time.Minute) },
	} {
		s := openShop(t, c, codec, false, edit)
		for _, writes := range []bool{false, true} {
			answer := serveOnce(t, codec.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				err := s.db.Fence(r.Context())
				if err == nil && writes {
					_, err = s.db.ExecContext(r.Context(), "INSERT INTO "+s.table+" VALUES (1)")
				}
				if err != nil {
					t.Error(err)
				}
			})))
			require.Equal(t, writes, answer.Header.Get(readroute.DefaultTokenHeader) != "", name)
			require.Len(t, answer.Cookies(), map[bool]int{true: 1, false: 0}[writes], name)
		}
	}
}

// TestMiddlewareKeepsNoSession: a session in the server's base context is nobody's; what one request writes does not hold
// another one.
func TestMiddlewareKeepsNoSession(t *testing.T) {
	base := readroute.WithSession(context.Background())
	h := codecWith(t, "k1").Middleware(told(readroute.PrimaryFor(time.Minute)))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(base, http.MethodGet, "/", nil))
	token, err := readroute.SessionFrom(base).Token(base)
	require.NoError(t, err)
	require.True(t, token.IsZero())
}
