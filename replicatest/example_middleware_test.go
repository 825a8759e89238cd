package replicatest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"

	"github.com/readroute/readroute"
)

// A web service while its replicas stand still: the form that was saved is shown, because the browser carries the token in a cookie. Without
// the middleware the second request has no session that knows of the first.
func Example_middleware() {
	c, db := exampleCluster()
	defer c.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(_ http.ResponseWriter, r *http.Request) {
		if _, err := db.ExecContext(r.Context(), "INSERT INTO t VALUES (1, ?)", r.FormValue("text")); err != nil {
			fmt.Println(err)
		}
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		var n int
		if err := db.QueryRowContext(r.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil {
			fmt.Println(err)
		}
		fmt.Fprintf(w, "%d forms", n)
	})
	codec, err := readroute.NewCodec(readroute.CodecConfig{Keys: []readroute.Key{{ID: "1", Secret: []byte("a secret of at least thirty-two bytes")}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	service := httptest.NewTLSServer(codec.Middleware(mux))
	defer service.Close()
	if err := c.Pause(context.Background()); err != nil {
		fmt.Println(err)
	}

	browser := service.Client()
	browser.Jar, _ = cookiejar.New(nil)
	saved, err := browser.PostForm(service.URL, url.Values{"text": {"hello"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	saved.Body.Close()
	shown, err := browser.Get(service.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer shown.Body.Close()
	page, _ := io.ReadAll(shown.Body)
	fmt.Println(string(page))

	// Output: 1 forms
}
