package readroute

import (
	"net/http"
	"strings"
)

// Middleware gives every request a session that needs what the request's tokens ask for, and hands the client a token when
// the session has come to need more: in the header [CodecConfig.Header], and in a cookie. A response of a request that wrote
// nothing sets nothing, so that caches may keep it. It is a middleware of the standard library's shape, which chi, gin, echo
// and the like take in as well; it goes outside of those that recover from panics or compress. A response with a token is also
// made Cache-Control: private, unless the handler has said that or no-store. What is run in a session that the handler has made for
// itself ([WithSession]) is in no token.
//
// The token goes out before the first byte of the response: with redirects, an implicit 200, Flush, Hijack, a response of
// several parts, and when the handler panics and somebody else answers. The first byte waits for the positions of the
// request's writes, at most for CaptureTimeout; then the token asks for the primary for a while, as it does for a write that has
// not returned: of a handler that has run out of time, for one. What is written to the database after the first byte the client
// does not hear of; [CodecConfig.OnLateWrite] does.
//
// A browser may have several responses under way, in any order, and keeps the cookie that came last. So each response that
// wrote sets a cookie of its own, which lives for MaxAge; a request brings all of them, and a response that wrote deletes
// those that it has taken in. Of one request 64 tokens are read; more of them are one bad token.
func (c *Codec) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, cookies := c.arriving(r)
		ctx := c.arrived(r.Context(), s)
		response := &response{ResponseWriter: w, codec: c, ctx: ctx, cookies: cookies}
		// What answers for a handler that panics is further out, and writes the headers that are there by then.
		defer response.end()
		next.ServeHTTP(response.as(), r.WithContext(ctx))
	})
}

// arriving returns a session of the tokens of a request, and the names of the cookies that are good.
func (c *Codec) arriving(r *http.Request) (s *Session, cookies []string) {
	in := intake{codec: c, ctx: r.Context()}
	for _, text := range r.Header.Values(c.config.Header) {
		in.line(text)
	}
	if c.bringsCookies(r) {
		for _, cookie := range r.Cookies() {
			if strings.HasPrefix(cookie.Name, c.config.Cookie+"-") && in.token(cookie.Value) {
				cookies = append(cookies, cookie.Name)
			}
		}
	}
	return NewSession(c.joined(in.end())), cookies
}

// bringsCookies reports that a request may have cookies of this codec, without reading them.
func (c *Codec) bringsCookies(r *http.Request) bool {
	if c.config.Cookie == noCookie {
		return false
	}
	for _, line := range r.Header["Cookie"] {
		if strings.Contains(line, c.config.Cookie+"-") {
			return true
		}
	}
	return false
}
