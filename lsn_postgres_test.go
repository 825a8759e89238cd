package readroute_test

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
	"github.com/readroute/readroute/internal/dbtest"
)

func TestLSNOnPostgres(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dsn := dbtest.StartPostgresT(t, dbtest.PostgresOptions{}).Primary().DSN()

	t.Run("ParseLSN gives the server's verdict", func(t *testing.T) {
		conn, err := pgx.Connect(ctx, dsn)
		require.NoError(t, err)
		defer conn.Close(context.WithoutCancel(ctx))

		var accepted, refused int
		for _, text := range mutatedLSNTexts(4000) {
			var serverText, serverNumber string
			err := conn.QueryRow(ctx, "select l::text, (l - '0/0')::text from (select $1::text::pg_lsn) as _(l)", text).
				Scan(&serverText, &serverNumber)
			got, parseErr := readroute.ParseLSN(text)
			if err != nil {
				var refusal *pgconn.PgError
				require.ErrorAsf(t, err, &refusal, "text %q", text)
				require.Truef(t, strings.HasPrefix(refusal.Code, "22"), "text %q: data exception expected, got %v", text, refusal)
				require.ErrorIsf(t, parseErr, readroute.ErrBadLSN, "the server refuses %q", text)
				refused++
				continue
			}
			require.NoErrorf(t, parseErr, "the server accepts %q", text)
			require.Equalf(t, serverNumber, strconv.FormatUint(uint64(got), 10), "text %q", text)
			require.Equalf(t, got, mustLSN(t, serverText), "the server prints %q for %q", serverText, text)
			accepted++
		}
		require.Greater(t, accepted, 500)
		require.Greater(t, refused, 500)
	})

	t.Run("an LSN is an argument and a result", func(t *testing.T) {
		db, err := sql.Open("pgx", dsn)
		require.NoError(t, err)
		defer db.Close()
		conn, err := pgx.Connect(ctx, dsn)
		require.NoError(t, err)
		defer conn.Close(context.WithoutCancel(ctx))

		type scanner interface{ Scan(dest ...any) error }
		for _, want := range []readroute.LSN{0, 1, 0x401F780, 0xB4D000000, 1<<64 - 1} {
			for name, row := range map[string]scanner{
				"database/sql": db.QueryRowContext(ctx, "select $1::pg_lsn, $1::text::pg_lsn, null::pg_lsn", want),
				"pgx":          conn.QueryRow(ctx, "select $1::pg_lsn, $1::text::pg_lsn, null::pg_lsn", want),
			} {
				var typed, cast readroute.LSN
				var absent sql.Null[readroute.LSN]
				require.NoError(t, row.Scan(&typed, &cast, &absent), name)
				require.Equal(t, want, typed, name)
				require.Equal(t, want, cast, name)
				require.False(t, absent.Valid, name)
			}
		}

		var number, nothing readroute.LSN
		require.NoError(t, db.QueryRowContext(ctx, "select 4711::bigint").Scan(&number))
		require.Equal(t, readroute.LSN(4711), number)
		require.ErrorIs(t, db.QueryRowContext(ctx, "select null::pg_lsn").Scan(&nothing), readroute.ErrBadLSN)

		var before, after, distance string
		require.NoError(t, db.QueryRowContext(ctx, "select '0/FFFFFFFF'::pg_lsn, '1/10'::pg_lsn, '1/10'::pg_lsn - '0/FFFFFFFF'").
			Scan(&before, &after, &distance))
		require.Equal(t, distance, strconv.FormatInt(mustLSN(t, after).Sub(mustLSN(t, before)), 10), "the server's own difference")
	})
}

// mutatedLSNTexts makes n texts, always the same ones, about as many of them LSNs as not.
func mutatedLSNTexts(n int) []string {
	const alphabet = "0123456789abcdefABCDEFgGxX/+-_ .\t\n\x00'\\é٣／"
	random := rand.New(rand.NewPCG(18, 19))
	pick := func(texts []string) string { return texts[random.IntN(len(texts))] }
	letters := strings.Split(alphabet, "")
	half := func(digits int) string {
		var b strings.Builder
		for range digits {
			b.WriteString(pick(letters[:22]))
		}
		return b.String()
	}

	texts := slices.Concat(lsnTexts.good, lsnTexts.bad)
	for len(texts) < n {
		text := half(1+random.IntN(8)) + "/" + half(1+random.IntN(8))
		switch random.IntN(4) {
		case 0: // as it is
		case 1:
			text = half(random.IntN(11)) + "/" + half(random.IntN(11))
		default:
			if random.IntN(2) == 0 {
				text = pick(texts)
			}
			for range 1 + random.IntN(2) {
				at := random.IntN(len(text) + 1)
				end := min(len(text), at+random.IntN(2))
				text = text[:at] + strings.Repeat(pick(letters), random.IntN(3)) + text[end:]
			}
		}
		texts = append(texts, text)
	}
	return texts
}
