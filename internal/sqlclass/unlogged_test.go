package sqlclass_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/sqlclass"
)

// TestUnlogged: a SET that may keep what follows from the replicas is seen in each of its spellings.
func TestUnlogged(t *testing.T) {
	of := func(d sqlclass.Dialect) *sqlclass.Classifier {
		c, err := sqlclass.New(sqlclass.Options{Dialect: d})
		require.NoError(t, err)
		return c
	}
	for text, want := range map[string]bool{
		"SET sql_log_bin = 0":                                   true,
		"set SESSION Sql_Log_Bin=OFF":                           true,
		"SET LOCAL sql_log_bin = 0":                             true,
		"SET @@sql_log_bin = 0":                                 true,
		"SET @@session.`sql_log_bin` := @v":                     true,
		"SET autocommit = 1, sql_log_bin = 0":                   true,
		"/* n */ SET sql_log_bin = 0; INSERT INTO t VALUES (1)": true,
		"SET skip_replication = 1":                              true,
		"SET STATEMENT skip_replication = 1 FOR SELECT 1":       true,
		"SET sql_log_off = 1":                                   false,
		"SET @v = 'sql_log_bin'":                                false,
		"SELECT @@sql_log_bin":                                  false,
		"INSERT INTO sql_log_bin VALUES (1)":                    false,
	} {
		for _, d := range []sqlclass.Dialect{sqlclass.MySQL, sqlclass.MariaDB} {
			if d == sqlclass.MySQL && text == "SET STATEMENT skip_replication = 1 FOR SELECT 1" {
				continue
			}
			require.Equal(t, want, of(d).Classify(text).Unlogged, "%s: %s", d, text)
		}
		require.False(t, of(sqlclass.PostgreSQL).Classify(text).Unlogged)
	}
}
