package sqlclass_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/sqlclass"
)

// TestRecentEndsWithTheCache: an answer at hand is one that the cache would give, and no other.
func TestRecentEndsWithTheCache(t *testing.T) {
	const text = "SELECT * FROM a_view"
	for name, end := range map[string]func(*sqlclass.Classifier){
		"a replica has refused the text": func(c *sqlclass.Classifier) { c.LearnWrite(text) },
		"there is no room for it any more": func(c *sqlclass.Classifier) {
			for i := range 2 * sqlclass.LearnedBytes / 256 {
				for range 2 {
					c.Classify(fmt.Sprintf("SELECT %d", i))
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := sqlclass.New(sqlclass.Options{Dialect: sqlclass.PostgreSQL, CacheBytes: 64 << 10})
			require.NoError(t, err)
			var r sqlclass.Recent
			require.Nil(t, r.Get(text))
			for range 3 {
				c.ClassifyInto(&r, 0, text)
			}
			require.Nil(t, r.Get(text+" "))
			st := r.Get(text)
			require.NotNil(t, st)
			require.Equal(t, c.Classify(text), *st)
			end(c)
			require.Nil(t, r.Get(text))
		})
	}
}

// TestRecentOfAClassifierWithoutCache has nothing to keep.
func TestRecentOfAClassifierWithoutCache(t *testing.T) {
	c, err := sqlclass.New(sqlclass.Options{Dialect: sqlclass.PostgreSQL, CacheBytes: -1})
	require.NoError(t, err)
	var r sqlclass.Recent
	for range 3 {
		require.Equal(t, sqlclass.Read, c.ClassifyInto(&r, 0, "SELECT 1").Class)
	}
	require.Nil(t, r.Get("SELECT 1"))
}
