package readroutegrpc_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/readroute/readroute"
	readroutegrpc "github.com/readroute/readroute/contrib/grpc"
)

// orders is a service that keeps orders in a database.
type orders struct {
	pb.UnimplementedTestServiceServer
	db *readroute.DB
}

// EmptyCall places an order.
func (o *orders) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	_, err := o.db.ExecContext(ctx, "INSERT INTO placed VALUES (42)")
	return &pb.Empty{}, err
}

// One service has another one place an order, and reads it: its session has learned from the answer what was written.
func Example() {
	db, err := openPlaced()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	codec, err := readroute.NewCodec(readroute.CodecConfig{Keys: []readroute.Key{{ID: "1", Secret: []byte("32 random bytes from your config")}}})
	if err != nil {
		fmt.Println(err)
		return
	}

	server := grpc.NewServer(
		grpc.UnaryInterceptor(readroutegrpc.UnaryServerInterceptor(codec)),
		grpc.StreamInterceptor(readroutegrpc.StreamServerInterceptor(codec)))
	pb.RegisterTestServiceServer(server, &orders{db: db})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(readroutegrpc.UnaryClientInterceptor(codec)),
		grpc.WithStreamInterceptor(readroutegrpc.StreamClientInterceptor(codec)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()

	ctx := readroute.WithSession(context.Background())
	if _, err := pb.NewTestServiceClient(conn).EmptyCall(ctx, &pb.Empty{}); err != nil {
		fmt.Println(err)
		return
	}
	var id int
	err = db.QueryRowContext(ctx, "SELECT id FROM placed").Scan(&id)
	fmt.Println(id, err)

	// Output: 42 <nil>
}

// openPlaced opens a pool over a cluster on which there is an empty table.
func openPlaced() (*readroute.DB, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if err := cluster.Primary().Exec(ctx, "CREATE TABLE IF NOT EXISTS placed (id int)", "TRUNCATE placed"); err != nil {
		return nil, err
	}
	if err := cluster.WaitCaughtUp(ctx); err != nil {
		return nil, err
	}
	db, err := readroute.Open(readroute.Config{
		Primary:  readroute.Node{Name: "a", Connector: readroute.Postgres(cluster.Primary().DSN())},
		Replicas: []readroute.Node{{Name: "b", Connector: readroute.Postgres(cluster.Standby(0).DSN())}},
	})
	if err != nil {
		return nil, err
	}
	return db, db.WaitReady(ctx)
}
