package replicatest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/replicatest"
	"github.com/readroute/readroute/replicatest/mariadb"
	"github.com/readroute/readroute/replicatest/mysql"
	"github.com/readroute/readroute/replicatest/postgres"
)

// told is a test that only listens.
type told struct {
	mu   sync.Mutex
	list []string
}

func (r *told) Helper() {}

func (r *told) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, fmt.Sprintf(format, args...))
}

func (r *told) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}

// store is an application's code.
type store struct{ db *readroute.DB }

func (s store) save(ctx context.Context, id, n int) error {
	_, err := s.db.ExecContext(ctx, fmt.Sprintf("INSERT INTO form VALUES (%d, %d)", id, n))
	return err
}

func (s store) look(ctx context.Context, id int) (n int, err error) {
	err = s.db.QueryRowContext(ctx, fmt.Sprintf("SELECT coalesce(sum(n), 0) FROM form WHERE id = %d", id)).Scan(&n) // look
	return n, err
}

const form = "CREATE TABLE form (id INTEGER PRIMARY KEY, n INTEGER)"

func eventual(config *readroute.Config) { config.WithoutSession = readroute.WithoutSessionEventual }

// TestStaleReadsAreFound: on the embedded servers by what they hand out, on real ones by where they are.
func TestStaleReadsAreFound(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T) *replicatest.Cluster{
		"SQLite": func(t *testing.T) *replicatest.Cluster {
			return replicatest.NewT(t, replicatest.Options{Schema: []string{form}})
		},
		"PostgreSQL": func(t *testing.T) *replicatest.Cluster {
			return postgres.NewT(t, replicatest.Options{Schema: []string{form}})
		},
		"MariaDB": func(t *testing.T) *replicatest.Cluster {
			return mariadb.NewT(t, replicatest.Options{Schema: []string{form}})
		},
		"MySQL": func(t *testing.T) *replicatest.Cluster {
			c, err := mysql.New(testContext(t), replicatest.Options{Schema: []string{form}})
			if errors.Is(err, mysql.ErrNoServer) {
				t.Skipf("MySQL NOT TESTED: %v", err)
			}
			return replicatest.ClosedBy(t, c, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := begin(t)
			s := store{c.OpenT(t, eventual)}
			var r told
			check := replicatest.RequireNoStaleReads(&r, s.db)
			found := func() []string {
				check()
				return r.take()
			}
			writing, reading := sessionContext(t), sessionContext(t)
			require.NoError(t, s.save(writing, 1, 10))
			require.NoError(t, c.WaitCaughtUp(writing))
			for _, ctx := range []context.Context{writing, reading} {
				n, err := s.look(ctx, 1)
				require.NoError(t, err)
				require.Equal(t, 10, n)
			}
			require.Empty(t, found(), "nothing was stale, at the lag that there is")

			_, err := s.look(testContext(t), 1)
			require.NoError(t, err)
			got := found()
			require.Len(t, got, 1)
			require.Regexp(t, `^replicatest/detector_test\.go:\d+: a read without a session went to replica [bc]`, got[0])
			require.Contains(t, got[0], "WithSession")
			require.Empty(t, found(), "it is told once")

			require.NoError(t, c.Pause(writing))
			require.NoError(t, s.save(writing, 2, 20))
			n, err := s.look(writing, 2)
			require.NoError(t, err)
			require.Equal(t, 20, n)
			require.Empty(t, found(), "a session sees its writes")
			for range 3 {
				n, err = s.look(reading, 2)
				require.NoError(t, err)
				require.Zero(t, n)
			}
			got = found()
			require.NotEmpty(t, got)
			all := strings.Join(got, "\n")
			require.Contains(t, all, "a stale read from replica")
			require.Contains(t, all, "the token of the session that wrote")
			require.Equal(t, line(t, "// look"), strings.Fields(got[0])[0])

			n, err = s.look(replicatest.AllowStale(reading), 2)
			require.NoError(t, err)
			require.Zero(t, n)
			_, err = s.look(replicatest.AllowStale(testContext(t)), 2)
			require.NoError(t, err)
			require.Empty(t, found(), "they may be stale")
			token, err := readroute.SessionFrom(writing).Token(writing)
			require.NoError(t, err)
			_, err = s.look(readroute.ContextWithSession(testContext(t), readroute.NewSession(token)), 2)
			require.NoError(t, err)
			require.Empty(t, found(), "the token was handed on")
			if name == "SQLite" {
				_, err = s.look(reading, 1)
				require.NoError(t, err)
				require.Empty(t, found(), "what it reads has not changed")
				var random int
				require.NoError(t, s.db.QueryRowContext(reading, "SELECT random()").Scan(&random))
				require.Empty(t, found(), "nobody can say that of a query that answers otherwise each time")
				stmt, err := s.db.PrepareContext(reading, "SELECT n FROM form WHERE id = ?")
				require.NoError(t, err)
				defer stmt.Close()
				require.Error(t, stmt.QueryRowContext(reading, 2).Scan(&n))
				require.Len(t, found(), 1, "a prepared statement")
				for _, query := range []string{
					"-- name: GetForm :one\nSELECT n FROM form WHERE id = 2", "/* route:replica */ SELECT n FROM form WHERE id = 2",
					"WITH two AS (SELECT n FROM form WHERE id = 2) SELECT n FROM two", "SELECT n FROM form WHERE id = 2 AND ';' = ';'",
				} {
					require.Error(t, s.db.QueryRowContext(reading, query).Scan(&n))
					require.Len(t, found(), 1, query)
				}
				for name, begin := range map[string]context.Context{"a session": reading, "may be stale": replicatest.AllowStale(reading)} {
					tx, err := s.db.BeginTx(begin, readOnly)
					require.NoError(t, err)
					var id int
					require.NoError(t, tx.QueryRow("SELECT id FROM form WHERE id = 1").Scan(&id))
					require.Empty(t, found(), "%s: it is the transaction's", name)
					require.Error(t, tx.QueryRow("SELECT n FROM form WHERE id = 2").Scan(&n))
					require.Error(t, tx.QueryRowContext(reading, "SELECT n FROM form WHERE id = 2").Scan(&n))
					require.NoError(t, tx.Rollback())
					want := 2
					if name == "may be stale" {
						want = 0
					}
					require.Len(t, found(), want, name)
				}
				tx, err := s.db.BeginTx(reading, readOnly)
				require.NoError(t, err)
				require.Error(t, tx.QueryRowContext(reading, "SELECT n FROM form WHERE id = ?", 2).Scan(&n))
				require.NoError(t, tx.Rollback())
				require.Len(t, found(), 1, "a transaction")
			}
			require.NoError(t, c.Resume(writing))
			require.NoError(t, c.WaitCaughtUp(writing))
			_, err = s.look(reading, 2)
			require.NoError(t, err)
			require.Empty(t, found())
		})
	}
}

// TestStaleReadsAreToldAtTheEnd: a test that has Cleanup need not call check.
func TestStaleReadsAreToldAtTheEnd(t *testing.T) {
	t.Parallel()
	c := replicatest.NewT(t, replicatest.Options{Schema: []string{form}})
	s := store{c.OpenT(t, eventual)}
	var r withCleanup
	replicatest.RequireNoStaleReads(&r, s.db)
	_, err := s.look(testContext(t), 1)
	require.NoError(t, err)
	require.Empty(t, r.take())
	r.cleanup()
	require.Len(t, r.take(), 1)

	other, err := readroute.Open(c.Config())
	require.NoError(t, err)
	defer other.Close()
	replicatest.RequireNoStaleReads(&r, other)()
	require.Contains(t, strings.Join(r.take(), ""), "was not opened by Cluster.Open")
}

type withCleanup struct {
	told
	cleanup func()
}

func (r *withCleanup) Cleanup(f func()) { r.cleanup = f }
