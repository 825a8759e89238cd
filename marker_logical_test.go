package readroute_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

// TestMarkerOnLogicalReplication: a subscriber is a server with a log of its own, and a primary to whoever asks it. The table tells how far it
// is, its rows arrive with the transactions that they stand for, and nothing is written there.
func TestMarkerOnLogicalReplication(t *testing.T) {
	settings := map[string]string{"wal_level": "logical", "max_logical_replication_workers": "4", "wal_retrieve_retry_interval": "20ms"}
	publisher := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Settings: settings}).Primary()
	subscriber := dbtest.StartPostgresT(t, dbtest.PostgresOptions{Settings: settings}).Primary()
	ctx := testContext(t)
	const tables = "CREATE TABLE doc (id int PRIMARY KEY, n int)"
	require.NoError(t, publisher.Exec(ctx, tables))
	require.NoError(t, subscriber.Exec(ctx, tables,
		"CREATE TABLE readroute_marker (writer varchar(64) PRIMARY KEY, seq bigint NOT NULL, owner varchar(64) NOT NULL, moved_at bigint NOT NULL)"))

	config := readroute.Config{
		Primary:  readroute.Node{Name: "publisher", Connector: readroute.Postgres(publisher.AppDSN())},
		Replicas: []readroute.Node{{Name: "subscriber", Connector: readroute.Postgres(subscriber.AppDSN())}},
		Marker:   &readroute.Marker{},
	}
	quick(&config)
	seen := record(&config)
	admin, err := readroute.Open(readroute.Config{Primary: config.Primary})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, admin.Close()) })
	require.NoError(t, readroute.CreateMarker(ctx, admin.DB, *config.Marker))
	require.NoError(t, publisher.Exec(ctx, "CREATE PUBLICATION p FOR TABLE doc, readroute_marker"))
	require.NoError(t, subscriber.Exec(ctx, fmt.Sprintf("CREATE SUBSCRIPTION s CONNECTION 'host=127.0.0.1 port=%d user=%s dbname=%s' PUBLICATION p",
		publisher.Port(), dbtest.SuperUser, dbtest.AppDatabase)))
	db := open(t, config)
	require.Equal(t, readroute.RolePrimary, status(t, db, "publisher").Role)
	require.Equal(t, readroute.RoleReplica, status(t, db, "subscriber").Role)

	session := sessionContext(t)
	write := func(id int) {
		_, err := db.ExecContext(session, "INSERT INTO doc VALUES ($1, $1)", id)
		require.NoError(t, err)
	}
	fromReplica := func(id int) {
		eventually(t, "the subscriber serves the session", func() bool {
			seen.take()
			require.Equal(t, 1, count(t, session, db, "doc", id))
			return seen.one(t).Role == readroute.RoleReplica
		})
	}
	write(1)
	fromReplica(1)
	require.NoError(t, subscriber.Exec(ctx, "ALTER SUBSCRIPTION s DISABLE"))
	for id := 2; id < 10; id++ {
		write(id)
		seen.take()
		require.Equal(t, 1, count(t, session, db, "doc", id))
		require.Equal(t, readroute.RolePrimary, seen.one(t).Role)
	}
	require.NoError(t, subscriber.Exec(ctx, "ALTER SUBSCRIPTION s ENABLE"))
	fromReplica(9)

	end := time.Now().Add(500 * time.Millisecond)
	for id := 10; time.Now().Before(end); id++ {
		write(id)
		require.Equal(t, 1, count(t, readroute.WithLevel(session, readroute.LevelCausal), db, "doc", id))
		require.Equal(t, 1, count(t, readroute.WithLevel(context.WithoutCancel(session), readroute.LevelGlobal), db, "doc", id))
	}
}
