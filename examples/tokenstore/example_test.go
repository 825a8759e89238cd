package tokenstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/examples/tokenstore"
)

// Two processes serve a client that is known by its API key and carries nothing.
func ExampleNewRedis() {
	client := redis.NewClient(&redis.Options{Addr: "redis:6379"})
	defer client.Close()
	store := tokenstore.NewRedis(client, "token:", 5*time.Minute)
	codec, err := readroute.NewCodec(readroute.CodecConfig{Unsigned: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	serve := func(ctx context.Context, db *readroute.DB, apiKey string, handle func(ctx context.Context) error) error {
		ctx, err := codec.Load(ctx, store, apiKey, db)
		if err != nil {
			fmt.Println(err) // the context is good all the same: it reads from the primary
		}
		if err := handle(ctx); err != nil {
			return err
		}
		return codec.Save(ctx, store, apiKey) // before the client is answered
	}
	_ = serve
}
