package lite

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// logOf returns a write-ahead log with some transactions.
func logOf(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	c, err := openControl(path)
	require.NoError(t, err)
	for _, s := range []string{"CREATE TABLE t (a)", "INSERT INTO t VALUES (randomblob(9000))", "INSERT INTO t VALUES (1)", "DELETE FROM t"} {
		require.NoError(t, c.exec(s))
	}
	log, err := os.ReadFile(path + "-wal")
	require.NoError(t, err)
	require.NoError(t, c.close())
	return log
}

// readLog returns the sizes of the transactions in a log.
func readLog(t testing.TB, path string, log []byte) (sizes []int, r *walReader) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, log, 0o600))
	r = &walReader{path: path}
	defer r.close()
	_ = r.read(func(pages []page, size uint32) { // what is wrong with it is the reader's to say
		if len(pages) == 0 || size == 0 {
			t.Fatal("a transaction without pages, or of no database")
		}
		for _, p := range pages {
			if len(p.data) != r.pageSize {
				t.Fatal("a page of another size")
			}
		}
		sizes = append(sizes, len(pages))
	})
	return sizes, r
}

// TestWALIsReadUpToTheLastCommit: of a log that ends anywhere, or is broken anywhere, what is before that is read, transaction by transaction, and nothing
// else.
func TestWALIsReadUpToTheLastCommit(t *testing.T) {
	log := logOf(t)
	path := filepath.Join(t.TempDir(), "wal")
	whole, r := readLog(t, path, log)
	require.Len(t, whole, 5, "with the one that openControl makes")
	require.EqualValues(t, len(log), r.offset)
	ends := []int{walHeader}
	for _, n := range whole {
		ends = append(ends, ends[len(ends)-1]+n*(frameHeader+r.pageSize))
	}
	for at := walHeader; at <= len(log); at += 997 {
		want := 0
		for want < len(whole) && ends[want+1] <= at {
			want++
		}
		cut, _ := readLog(t, path, log[:at])
		require.Len(t, cut, want, "cut at %d", at)
		if at < len(log) {
			broken := slices.Clone(log)
			broken[at] ^= 1
			got, _ := readLog(t, path, broken)
			require.Len(t, got, want, "broken at %d", at)
		}
	}
	// Each is read once, whenever it comes.
	require.NoError(t, os.WriteFile(path, log[:ends[2]], 0o600))
	reader := &walReader{path: path}
	defer reader.close()
	count := 0
	for _, end := range append([]int{ends[2] + 100}, ends[2:]...) {
		require.NoError(t, os.WriteFile(path, log[:end], 0o600))
		require.NoError(t, reader.read(func([]page, uint32) { count++ }))
	}
	require.Equal(t, len(whole), count)
}

// FuzzWAL: no log makes the reader fail in another way than by an error, and what it reads of one it reads again.
func FuzzWAL(f *testing.F) {
	log := logOf(f)
	f.Add(log)
	f.Add(log[:40])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, log []byte) {
		path := filepath.Join(t.TempDir(), "wal")
		once, _ := readLog(t, path, log)
		twice, _ := readLog(t, path, log)
		if !slices.Equal(once, twice) {
			t.Fatalf("%v, then %v", once, twice)
		}
	})
}
