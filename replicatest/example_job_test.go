package replicatest_test

import (
	"context"
	"fmt"

	"github.com/readroute/readroute"
)

// A request writes, and hands the rest to a worker in another process, which reads replicas as well. Its token goes with the job.
func Example_job() {
	c, web := exampleCluster()
	defer c.Close()
	worker, err := c.Open(context.Background())
	report(err)
	report(c.Pause(context.Background())) // the worker is quicker than replication
	type job struct{ id, token string }
	queue := make(chan job, 1)

	request := readroute.WithSession(context.Background())
	_, err = web.ExecContext(request, "INSERT INTO t VALUES (7, 'send the invoice')")
	report(err)
	token, err := readroute.SessionFrom(request).Token(request)
	report(err)
	queue <- job{"7", token.String()}

	taken := <-queue
	session := readroute.NewSession()
	if token, err := readroute.ParseToken(taken.token); err == nil {
		session.Merge(token)
	} else {
		report(worker.Fence(readroute.ContextWithSession(context.Background(), session))) // whatever was there when the job was made
	}
	ctx := readroute.ContextWithSession(context.Background(), session)
	var text string
	report(worker.QueryRowContext(ctx, "SELECT text FROM t WHERE id = ?", taken.id).Scan(&text))
	fmt.Println(text)

	// Output: send the invoice
}
