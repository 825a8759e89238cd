package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/engine"
	"github.com/readroute/readroute/internal/sqlclass"
)

func TestOf(t *testing.T) {
	for version, want := range map[string]string{
		"PostgreSQL 16.3 on x86_64-pc-linux-gnu, compiled by gcc": "PostgreSQL",
		"PostgreSQL 19rc1":                  "PostgreSQL",
		"8.0.36":                            "MySQL",
		"9.7.4-log":                         "MySQL",
		"10.11.19-MariaDB-0+deb12u1":        "MariaDB",
		"5.5.5-10.6.16-MariaDB-log":         "MariaDB",
		"12.1.2-MariaDB":                    "MariaDB",
		"5.7.44":                            "",
		"10.5.9-MariaDB":                    "",
		"8.0.11-TiDB-v7.5.0":                "",
		"":                                  "",
		"CockroachDB CCL v23.1.11 (x86_64)": "",
		"PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC, Redshift 1.0.12": "",
		"Vitess": "",
	} {
		e, err := engine.Of(version)
		if want == "" {
			require.ErrorIs(t, err, engine.ErrUnsupported, version)
			continue
		}
		require.NoError(t, err, version)
		require.Equal(t, want, e.Name(), version)
	}
}

// link answers for its version, and refuses everything else.
type link struct {
	version string
	refusal error
}

func (l link) QueryRow(_ context.Context, query string) ([]string, error) {
	if query == "SELECT VERSION()" {
		if l.version == "" {
			return nil, l.refusal
		}
		return []string{l.version}, nil
	}
	return nil, l.refusal
}

func (l link) Query(ctx context.Context, query string) ([]string, [][]string, error) {
	_, err := l.QueryRow(ctx, query)
	return nil, nil, err
}

func (link) Close() error { return nil }

var (
	postgresRefusal = &pgconn.PgError{Severity: "ERROR", Code: "42601", Message: "syntax error"}
	mysqlRefusal    = &mysql.MySQLError{Number: 1193, Message: "Unknown system variable"}
	errBroken       = errors.New("broken pipe")
)

// TestFoundOnce: the first server that answers says what the cluster is made of, once, and every other is held to it.
func TestFoundOnce(t *testing.T) {
	var mu sync.Mutex
	var settled []sqlclass.Dialect
	f := engine.Find(func(e engine.Engine) {
		mu.Lock()
		defer mu.Unlock()
		settled = append(settled, e.Dialect())
	})
	require.Nil(t, f.Engine())
	require.Empty(t, f.Name())
	require.Empty(t, f.ReadOnlySQL(), "nobody knows how to make a session read-only")
	require.False(t, f.Refused(mysqlRefusal))
	require.True(t, f.Down(errBroken))
	require.False(t, f.Down(mysqlRefusal), "a server has answered")
	require.False(t, f.Down(postgresRefusal))

	_, err := f.Ask(t.Context(), link{refusal: errBroken})
	require.ErrorIs(t, err, errBroken)
	require.Nil(t, f.Engine(), "a server that cannot be asked says nothing")
	_, err = f.Ask(t.Context(), link{version: "5.7.44", refusal: mysqlRefusal})
	require.ErrorIs(t, err, engine.ErrUnsupported)
	require.Nil(t, f.Engine())

	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { _, _ = f.Ask(t.Context(), link{version: "10.11.2-MariaDB", refusal: mysqlRefusal}) })
	}
	all.Wait()
	require.Equal(t, "MariaDB", f.Name())
	require.Equal(t, []sqlclass.Dialect{sqlclass.MariaDB}, settled)

	for _, other := range []link{{"8.4.0", mysqlRefusal}, {"PostgreSQL 17.0", postgresRefusal}} {
		_, err = f.Ask(t.Context(), other)
		require.ErrorIs(t, err, engine.ErrMixed)
		require.ErrorContains(t, err, "MariaDB")
	}
	_, err = f.Ask(t.Context(), link{version: "10.11.2-MariaDB", refusal: mysqlRefusal})
	require.ErrorIs(t, err, mysqlRefusal, "of the same kind, it says itself what is wrong")
	_, err = f.Ask(t.Context(), link{version: "8.4.0", refusal: errBroken})
	require.ErrorIs(t, err, errBroken)
	require.NotErrorIs(t, err, engine.ErrMixed, "a connection that breaks is no answer")
	require.Len(t, settled, 1)
}
