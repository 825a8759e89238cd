package main

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"

	"github.com/readroute/readroute/internal/dbtest"
)

const processes = 2

// way is one way to run the service: processes behind a balancer, and the browsers that use it.
type way struct {
	name       string
	middleware bool
	processes  []*process
	balancer   *httptest.Server
	browsers   []*browser
	seen       views
}

// open starts everything. Its users are those after firstUser. The caller closes, also after an error.
func (w *way) open(ctx context.Context, c *dbtest.PostgresCluster, firstUser int) error {
	s := settings{
		Primary:    c.Primary().AppDSN(),
		Replicas:   make(map[string]string),
		Secret:     make([]byte, 32),
		Middleware: w.middleware,
	}
	_, _ = rand.Read(s.Secret) // it never fails
	for _, n := range c.Nodes()[1:] {
		s.Replicas[n.Name()] = n.AppDSN()
	}
	var addrs []string
	for range processes {
		p, err := startProcess(ctx, s)
		if err != nil {
			return err
		}
		w.processes = append(w.processes, p)
		addrs = append(addrs, p.addr)
	}
	w.balancer = newBalancer(addrs)
	for i := range browsers {
		w.browsers = append(w.browsers, newBrowser(w.balancer, firstUser+i+1))
	}
	return nil
}

// close ends everything and waits for it.
func (w *way) close(ctx context.Context) error {
	for _, b := range w.browsers {
		b.transport.CloseIdleConnections()
	}
	if w.balancer != nil {
		w.balancer.Close()
	}
	var errs []error
	for _, p := range w.processes {
		errs = append(errs, p.stop())
	}
	if ctx.Err() != nil {
		return nil // it has killed the processes
	}
	return errors.Join(errs...)
}

// newBalancer sends every request to the next of the processes, whoever it is from. TLS ends here: browsers bring secure
// cookies back only over TLS.
func newBalancer(addrs []string) *httptest.Server {
	var next atomic.Uint64
	balancer := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: addrs[next.Add(1)%uint64(len(addrs))]})
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: browsers * tabs},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	})
	balancer.EnableHTTP2 = true
	balancer.StartTLS()
	return balancer
}
