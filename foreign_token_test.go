package readroute_test

import (
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// craft makes the text of a token by its layout, as somebody else could.
func craft(t testing.TB, cluster string, system uint64, timeline uint64, lsn uint64) readroute.Token {
	t.Helper()
	b := []byte{1, 1, byte(len(cluster))}
	b = append(b, cluster...)
	b = append(b, 1) // it says when the write was
	b = binary.AppendUvarint(b, uint64(time.Now().UnixMilli()))
	b = append(b, 1, 1)
	b = binary.BigEndian.AppendUint64(b, system)
	b = binary.AppendUvarint(b, timeline)
	b = binary.AppendUvarint(b, lsn)
	token, err := readroute.ParseToken(base64.RawURLEncoding.EncodeToString(b))
	require.NoError(t, err)
	return token
}

// TestK5_16_TokenFromTheFuture: nothing that a token says makes a read wait for what cannot come.
func TestK5_16_TokenFromTheFuture(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	patient(&config)
	seen, happened := record(&config), listen(&config)
	db := open(t, config)
	system, err := strconv.ParseUint(onPrimary(t, c, "SELECT system_identifier FROM pg_control_system()"), 10, 64)
	require.NoError(t, err)
	for name, token := range map[string]readroute.Token{
		"above the primary":  craft(t, "main", system, 1, 1<<64-1),
		"just above":         craft(t, "main", system, 1, 1<<40),
		"another system":     craft(t, "main", system+1, 1, 8192),
		"a newer timeline":   craft(t, "main", system, 1<<32-1, 8192),
		"of another cluster": craft(t, "other", system, 1, 1<<64-1),
	} {
		t.Run(name, func(t *testing.T) {
			seen.take()
			before := len(happened.of(readroute.EventPositionLost))
			var wg sync.WaitGroup
			var longest time.Duration
			var mu sync.Mutex
			for range 8 {
				wg.Go(func() {
					for range 25 {
						ctx := readroute.ContextWithSession(testContext(t), readroute.NewSession(token))
						at := time.Now()
						err := db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(new(int))
						mu.Lock()
						longest = max(longest, time.Since(at))
						mu.Unlock()
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			require.Less(t, longest, 5*time.Second, "nothing waits for a position that cannot come")
			require.Zero(t, db.RouteStats().Waiting)
			list := seen.take()
			require.Len(t, list, 200)
			reasons := map[readroute.Reason]int{}
			for _, d := range list {
				reasons[d.Reason]++
				if name == "of another cluster" {
					require.Equal(t, readroute.RoleReplica, d.Role)
				} else {
					require.Equal(t, readroute.RolePrimary, d.Role, "%+v", d)
				}
			}
			t.Log(reasons, longest)
			if name == "above the primary" || name == "just above" || name == "another system" {
				require.Equal(t, 200, reasons[readroute.ReasonPositionLost])
				require.Greater(t, len(happened.of(readroute.EventPositionLost)), before)
			}
		})
	}
	// One session that carries such a token is held to the primary once, and goes on.
	ctx := readroute.ContextWithSession(testContext(t), readroute.NewSession(craft(t, "main", system, 1, 1<<40)))
	countIn(t, ctx, db, table)
	require.Equal(t, readroute.ReasonPositionLost, seen.one(t).Reason)
	eventually(t, "a replica serves the session", func() bool {
		countIn(t, ctx, db, table)
		return seen.one(t).Role == readroute.RoleReplica
	})
}

// TestK5_21_ClustersDoNotMix: what a session has written in one cluster holds no read of another.
func TestK5_21_ClustersDoNotMix(t *testing.T) {
	c := sharedCluster(t)
	table := newTable(t, c, "id int")
	config := configFor(c)
	quick(&config)
	config.Name = "billing"
	billing := open(t, config)
	config.Name = "main"
	seen := record(&config)
	main := open(t, config)
	pauseReplay(t, c)
	ctx := wrote(t, billing, table)
	require.Zero(t, countIn(t, ctx, main, table))
	require.Equal(t, readroute.RoleReplica, seen.one(t).Role)
	token, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)

	_, err = main.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)")
	require.NoError(t, err)
	both, err := readroute.SessionFrom(ctx).Token(ctx)
	require.NoError(t, err)
	carried, err := readroute.ParseToken(both.String())
	require.NoError(t, err)
	next := readroute.ContextWithSession(testContext(t), readroute.NewSession(carried))
	seen.take()
	require.Equal(t, 2, countIn(t, next, main, table))
	require.Equal(t, readroute.RolePrimary, seen.one(t).Role)
	require.Equal(t, 2, countIn(t, next, billing, table))
	next = readroute.ContextWithSession(testContext(t), readroute.NewSession(token))
	require.Zero(t, countIn(t, next, main, table))
	require.Equal(t, 2, countIn(t, next, billing, table))
}
