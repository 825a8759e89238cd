package readroute

import "net/http"

// Transport returns a RoundTripper that sends the token of the request's context with each request, as [Codec.Inject], and
// makes its session need what the answer's token asks for, as [Codec.Merge]: what the other service wrote for a request,
// later reads of the session see. When there is no answer to a request that may have written (any method but GET, HEAD,
// OPTIONS and TRACE), or one without a token says what a gateway says that got none (502, 503, 504, 520 to 524), the session reads
// from the primary for a while. A nil base means http.DefaultTransport. Requests whose context has no session pass as they are.
func (c *Codec) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{codec: c, base: base}
}

type transport struct {
	codec *Codec
	base  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if SessionFrom(ctx) == nil {
		return t.base.RoundTrip(r)
	}
	sent := r.WithContext(ctx) // a copy: a RoundTripper does not change its request
	sent.Header = r.Header.Clone()
	if sent.Header == nil {
		sent.Header = http.Header{}
	}
	t.codec.Inject(ctx, sent.Header)
	answer, err := t.base.RoundTrip(sent)
	switch {
	case err == nil && answer.Header.Get(t.codec.config.Header) != "":
		t.codec.Merge(ctx, answer.Header)
	case mayWrite(r.Method) && (err != nil || isLost(answer.StatusCode)):
		t.codec.Merge(ctx, nil)
	}
	return answer, err
}

func mayWrite(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return false
	}
	return true
}

// isLost reports that a gateway may say so that it has no answer, although the service may have been asked: Envoy says 503 of a
// connection that was reset, http.TimeoutHandler of a handler that goes on, Cloudflare 520 to 524. A service that says it itself,
// and has written, sends a token.
func isLost(status int) bool {
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return status >= 520 && status <= 524
}

// CloseIdleConnections is what http.Client.CloseIdleConnections calls.
func (t *transport) CloseIdleConnections() {
	if b, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		b.CloseIdleConnections()
	}
}
