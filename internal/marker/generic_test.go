package marker

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

// TestGenericRetry: what a replica of SQLite has answered says whether a read may run once more; of a database that is not known, nothing does.
func TestGenericRetry(t *testing.T) {
	for err, want := range map[codeError]core.Retry{
		{1, "no such table: t"}:                         core.RetrySchema,
		{1, "no such column: late"}:                     core.RetrySchema,
		{1, "no such function: f"}:                      core.RetrySchema,
		{17, "no such index: i"}:                        core.RetrySchema,
		{1, `near "FROM": syntax error`}:                core.RetryNone,
		{17, "database schema has changed"}:             core.RetryNone,
		{19, "NOT NULL constraint failed: no such row"}: core.RetryNone,
		{5, "database is locked"}:                       core.RetryConflict,
		{6, "database table is locked"}:                 core.RetryConflict,
		{8, "attempt to write a readonly database"}:     core.RetryRefused,
		{8 | 2<<8, "attempt to write"}:                  core.RetryRefused,
		{10, "disk I/O error"}:                          core.RetryConnection,
		{14, "unable to open database file"}:            core.RetryConnection,
	} {
		require.Equal(t, want, Generic{SQLite: true}.Retry(fmt.Errorf("wrapped: %w", err)), "%+v", err)
		require.Equal(t, core.RetryConnection, Generic{}.Retry(err), "%+v", err)
	}
	require.Equal(t, core.RetryConnection, Generic{SQLite: true}.Retry(errors.New("no such table: t")), "nobody says whose error it is")
}
