package readroute

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

// response is a response whose headers get a token before they go out.
type response struct {
	http.ResponseWriter
	codec   *Codec
	ctx     context.Context // of the request, with its session
	cookies []string        // that the session has taken in
	once    sync.Once
	growth  growth // of the session when the headers went out
}

// begin is called before whatever may be the first byte.
func (w *response) begin() { w.once.Do(w.announce) }

func (w *response) announce() {
	w.growth = growthOf(SessionFrom(w.ctx))
	h := w.Header()
	if !w.codec.Reply(w.ctx, h) {
		return
	}
	keepPrivate(h)
	if w.codec.config.Cookie == noCookie {
		return
	}
	w.codec.setCookie(h, h.Get(w.codec.config.Header))
	for _, name := range w.cookies {
		w.codec.addCookie(h, name, "")
	}
}

// keepPrivate keeps caches that many share from a response with a token, which is one client's own: a Set-Cookie alone does not, to
// the letter of RFC 9111, and a header of this package's own does not at all.
func keepPrivate(h http.Header) {
	for _, line := range h.Values("Cache-Control") {
		if line = strings.ToLower(line); strings.Contains(line, "private") || strings.Contains(line, "no-store") {
			return
		}
	}
	h.Add("Cache-Control", "private")
}

// end is called when the handler has returned, or panics. Something of it may go on: one that has run out of time, a goroutine.
func (w *response) end() {
	w.begin()
	if w.codec.config.OnLateWrite == nil {
		return
	}
	s := SessionFrom(w.ctx)
	late := sync.OnceFunc(func() { w.codec.config.OnLateWrite(w.ctx) })
	s.core.OnGrown(late)
	if w.growth != growthOf(s) {
		late()
	}
}

// WriteHeader implements http.ResponseWriter. Early hints and the like are not the response; switching protocols is.
func (w *response) WriteHeader(status int) {
	if status >= 200 || status < 100 || status == http.StatusSwitchingProtocols {
		w.begin()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *response) Write(b []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(b)
}

// WriteString implements io.StringWriter.
func (w *response) WriteString(s string) (int, error) {
	w.begin()
	return io.WriteString(w.ResponseWriter, s)
}

// ReadFrom implements io.ReaderFrom, so that files go out as they would without the middleware.
func (w *response) ReadFrom(src io.Reader) (int64, error) {
	w.begin()
	return io.Copy(w.ResponseWriter, src)
}

// FlushError is what http.ResponseController calls.
func (w *response) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// CloseNotify implements http.CloseNotifier, which gin asks for.
func (w *response) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(w.ctx, func() { gone <- true })
	return gone
}

// Unwrap lets http.ResponseController reach what else the server can do.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// The optional interfaces that a handler may not find unless the server's own response has them.
type (
	responseFlusher  struct{ w *response }
	responseHijacker struct{ w *response }
)

// Flush implements http.Flusher.
func (f responseFlusher) Flush() { _ = f.w.FlushError() }

// Hijack implements http.Hijacker. Whoever takes the connection finds the token among the headers.
func (h responseHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h.w.begin()
	return http.NewResponseController(h.w.ResponseWriter).Hijack()
}

// can reports that a response, or one in it, has an optional interface. What http.ResponseController would find further in has to be
// here as well, or it would find it past the headers' token.
func can[T any](w http.ResponseWriter) bool {
	for {
		if _, ok := w.(T); ok {
			return true
		}
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = outer.Unwrap()
	}
}

// as returns w with the optional interfaces that the response in it has.
func (w *response) as() http.ResponseWriter {
	flushes, hijacks := can[http.Flusher](w.ResponseWriter), can[http.Hijacker](w.ResponseWriter)
	pusher, pushes := w.ResponseWriter.(http.Pusher)
	f, h := responseFlusher{w}, responseHijacker{w}
	switch {
	case flushes && hijacks && pushes:
		return struct {
			*response
			http.Flusher
			http.Hijacker
			http.Pusher
		}{w, f, h, pusher}
	case flushes && hijacks:
		return struct {
			*response
			http.Flusher
			http.Hijacker
		}{w, f, h}
	case flushes && pushes:
		return struct {
			*response
			http.Flusher
			http.Pusher
		}{w, f, pusher}
	case hijacks && pushes:
		return struct {
			*response
			http.Hijacker
			http.Pusher
		}{w, h, pusher}
	case flushes:
		return struct {
			*response
			http.Flusher
		}{w, f}
	case hijacks:
		return struct {
			*response
			http.Hijacker
		}{w, h}
	case pushes:
		return struct {
			*response
			http.Pusher
		}{w, pusher}
	}
	return w
}
