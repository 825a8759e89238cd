package replicatest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/readroute/readroute"
)

// One service asks another to write, and reads it then, while the replicas stand still: the answer carries the token back.
func Example_transport() {
	c, db := exampleCluster()
	defer c.Close()
	report(c.Pause(context.Background()))
	codec, err := readroute.NewCodec(readroute.CodecConfig{Keys: []readroute.Key{{ID: "1", Secret: []byte("a secret of at least thirty-two bytes")}}})
	report(err)
	other := httptest.NewServer(codec.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := db.ExecContext(r.Context(), "INSERT INTO t VALUES (1, 'one')")
		report(err)
	})))
	defer other.Close()

	client := &http.Client{Transport: codec.Transport(nil)}
	ctx := readroute.WithSession(context.Background())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, other.URL, http.NoBody)
	report(err)
	answer, err := client.Do(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	report(answer.Body.Close())
	var n int
	report(db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&n))
	fmt.Println(n)

	// Output: 1
}
