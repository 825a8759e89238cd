// Web shows the middleware under net/http, chi, gin and echo: a note is saved, and the page that the browser is sent to
// shows it, on replicas that are late.
//
//	go run . -router chi -primary postgres://app@db-a/app -replica postgres://app@db-b/app
//
// It makes the table notes and listens on 127.0.0.1:8080. The tests start servers of their own.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/readroute/readroute"
)

// routers make the same service with the same middleware.
var routers = map[string]func(*readroute.Codec, *notes) http.Handler{
	"net/http": newServeMux,
	"chi":      newChi,
	"gin":      newGin,
	"echo":     newEcho,
}

func main() {
	names := strings.Join(slices.Sorted(maps.Keys(routers)), ", ")
	router := flag.String("router", "net/http", "one of "+names)
	primary := flag.String("primary", "", "connection URL of the primary")
	replica := flag.String("replica", "", "connection URL of a replica")
	secret := flag.String("secret", os.Getenv("TOKEN_SECRET"), "signs tokens; at least 16 bytes, the same in all processes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, "127.0.0.1:8080", *router, *primary, *replica, *secret)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr, router, primary, replica, secret string) error {
	build, ok := routers[router]
	if !ok {
		return fmt.Errorf("unknown router %q", router)
	}
	codec, err := readroute.NewCodec(readroute.CodecConfig{
		Keys: []readroute.Key{{ID: "1", Secret: []byte(secret)}},
		// Without TLS, for this example only: a browser does not bring secure cookies back then.
		EditCookie: func(c *http.Cookie) { c.Secure = false },
	})
	if err != nil {
		return err
	}
	db, err := readroute.Open(readroute.Config{
		Primary:  readroute.Node{Name: "primary", Connector: readroute.Postgres(primary)},
		Replicas: []readroute.Node{{Name: "replica", Connector: readroute.Postgres(replica)}},
	})
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.PrimaryDB().ExecContext(ctx, schema); err != nil {
		return err
	}
	server := &http.Server{Addr: addr, Handler: build(codec, &notes{db: db}), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

const schema = "CREATE TABLE IF NOT EXISTS notes (id bigserial PRIMARY KEY, text text NOT NULL)"

// notes are what the service keeps. It knows nothing of tokens.
type notes struct {
	db *readroute.DB
}

func (n *notes) save(ctx context.Context, text string) (id int64, err error) {
	err = n.db.QueryRowContext(ctx, "INSERT INTO notes (text) VALUES ($1) RETURNING id", text).Scan(&id)
	return id, err
}

func (n *notes) show(ctx context.Context, id string) (text string, err error) {
	err = n.db.QueryRowContext(ctx, "SELECT text FROM notes WHERE id = $1", id).Scan(&text)
	return text, err
}

// status is what an error of show becomes.
func status(err error) int {
	if errors.Is(err, sql.ErrNoRows) {
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}
