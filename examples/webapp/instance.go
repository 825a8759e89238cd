package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"

	"github.com/readroute/readroute"
)

// serve is a process of the service. It prints its address once it can serve, and ends when its input does.
func serve(in io.Reader, out io.Writer) (err error) {
	signal.Ignore(os.Interrupt) // which a terminal sends to the process that started this one as well
	var s settings
	if err := json.NewDecoder(in).Decode(&s); err != nil {
		return fmt.Errorf("reading the settings: %w", err)
	}
	ctx, stop := context.WithTimeout(context.Background(), timeLimit)
	defer stop()
	db, err := openDB(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	badTokens := make(chan error, 1)
	handler, err := newHandler(db, s, badTokens)
	if err != nil {
		return err
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	// The balancer opens connections that it uses later. One that ends while a POST is on its way fails that, so none ends.
	server := &http.Server{Handler: handler, ReadHeaderTimeout: timeLimit}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = server.Close()
	}()
	fmt.Fprintln(out, listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	select {
	case err := <-badTokens:
		return fmt.Errorf("what another process has signed is no good here: %w", err)
	default:
		return nil
	}
}

// newHandler returns the service with sessions. The first bad token goes to badTokens, which has room for it.
func newHandler(db *readroute.DB, s settings, badTokens chan<- error) (http.Handler, error) {
	if !s.Middleware {
		return sessions(&service{db}), nil
	}
	codec, err := readroute.NewCodec(readroute.CodecConfig{
		Keys: []readroute.Key{{ID: "1", Secret: s.Secret}},
		OnBadToken: func(_ context.Context, err error) readroute.Token {
			select {
			case badTokens <- err:
			default:
			}
			return readroute.PrimaryFor(timeLimit)
		},
	})
	if err != nil {
		return nil, err
	}
	return codec.Middleware(&service{db}), nil
}

func openDB(ctx context.Context, s settings) (*readroute.DB, error) {
	config := readroute.Config{
		Primary: readroute.Node{Name: primaryName, Connector: readroute.Postgres(s.Primary)},
		Hooks:   readroute.Hooks{Decision: note},
	}
	for name, dsn := range s.Replicas {
		config.Replicas = append(config.Replicas, readroute.Node{Name: name, Connector: readroute.Postgres(dsn)})
	}
	db, err := readroute.Open(config)
	if err != nil {
		return nil, err
	}
	if err := db.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}
