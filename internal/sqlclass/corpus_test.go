package sqlclass_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/dbtest"
	"github.com/readroute/readroute/internal/sqlclass"
)

// The corpora are folders of .sql files that are not part of this repository, for instance the regression tests of the servers.
const (
	postgresCorpusEnv = "READROUTE_PG_CORPUS"
	mysqlCorpusEnv    = "READROUTE_MYSQL_CORPUS"
)

var (
	psqlLine    = regexp.MustCompile(`(?m)^\s*\\.*$`)
	psqlSend    = regexp.MustCompile(`(?m)\s\\(g|gx|gset|gexec|gdesc|watch|crosstabview)\b.*$`)
	copyFromCLI = regexp.MustCompile(`(?ims)^\s*(copy\s[^;]*\sfrom\s+stdin[^;]*;)[^\n]*\n.*?^\\\.\s*$`)
	fromClient  = regexp.MustCompile(`(?is)^\s*(--[^\n]*\n\s*)*copy\s.*\sfrom\s+stdin`)
)

// corpusFiles returns the .sql files below a folder; what sets the objects of the others up comes first.
func corpusFiles(t *testing.T, env string) []string {
	t.Helper()
	dir := os.Getenv(env)
	if dir == "" {
		t.Skipf("%s does not name a folder of .sql files", env)
	}
	var files []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && (filepath.Ext(path) == ".sql" || filepath.Ext(path) == ".test") {
			files = append(files, path)
		}
		return err
	}))
	rank := func(path string) int {
		switch base := filepath.Base(path); {
		case base == "test_setup.sql":
			return 0
		case strings.HasPrefix(base, "create_"):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a, b)) })
	require.NotEmpty(t, files)
	return files
}

// tally counts what became of the statements of a corpus.
type tally struct {
	statements, reads, ran, refused, left int
	kept                                  map[string]int // reads on the server that stay on the primary, by class and token
	failures                              []string
}

func (c *tally) report(t *testing.T) {
	t.Helper()
	tokens := slices.SortedFunc(maps.Keys(c.kept), func(a, b string) int { return cmp.Or(c.kept[b]-c.kept[a], strings.Compare(a, b)) })
	kept := 0
	for _, n := range c.kept {
		kept += n
	}
	t.Logf("statements %d, called a read %d, of those run on both %d, refused %d, leaving something behind %d; selects kept on the primary %d",
		c.statements, c.reads, c.ran, c.refused, c.left, kept)
	for _, token := range tokens[:min(len(tokens), 60)] {
		t.Logf("%6d %s", c.kept[token], token)
	}
	for _, f := range c.failures[:min(len(c.failures), 50)] {
		t.Error(f)
	}
}

// TestOracleCorpusPostgres runs a corpus on a primary, with a standby that applies everything at once, and asks the oracle about
// every statement that is called a read at the moment it would run.
func TestOracleCorpusPostgres(t *testing.T) {
	files := corpusFiles(t, postgresCorpusEnv)
	cluster, err := dbtest.StartPostgres(t.Context(), dbtest.PostgresOptions{Standbys: 1, Settings: map[string]string{
		"max_prepared_transactions": "10", "max_locks_per_transaction": "256", "max_standby_streaming_delay": "0",
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, cluster.Close()) }()
	count := tally{kept: map[string]int{}}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		sql := copyFromCLI.ReplaceAllString(string(text), "$1")
		sql = psqlSend.ReplaceAllString(sql, ";")
		sql = psqlLine.ReplaceAllString(sql, "")
		begun := time.Now()
		corpusFile(t, cluster, filepath.Base(file), sqlclass.Split(sqlclass.PostgreSQL, sql), &count)
		if took := time.Since(begun); took > 20*time.Second {
			t.Logf("%s took %v", filepath.Base(file), took)
		}
	}
	count.report(t)
}

func corpusFile(t *testing.T, cluster *dbtest.PostgresCluster, file string, statements []string, count *tally) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	o := newPostgresOracle(t, cluster)
	defer func() { _ = o.primary.Close(context.Background()); _ = o.standby.Close(context.Background()) }()
	_ = run(ctx, o.primary, "SET statement_timeout = '2s'")
	_ = run(ctx, o.standby, "SET statement_timeout = '2s'")
	caughtUp, catalogue := false, false
	for _, sql := range statements {
		if o.primary.IsClosed() || ctx.Err() != nil {
			t.Logf("%s: the session has ended at %.60q", file, sql)
			return
		}
		count.statements++
		if fromClient.MatchString(sql) {
			continue // there is nobody to send the rows
		}
		st := o.classifier.Classify(sql)
		if st.Class == sqlclass.Read && !catalogue { // the user's own objects count
			o.readCatalogueIfIdle(ctx)
			catalogue = true
			st = o.classifier.Classify(sql)
		}
		if st.Class != sqlclass.Read {
			if err := run(ctx, o.primary, sql); err == nil && isSelect(sql) {
				count.kept[fmt.Sprintf("%v %s", st.Class, st.Token)]++
			}
			switch {
			case st.Class == sqlclass.SessionState && !st.MayWrite:
				_ = run(ctx, o.standby, sql)
			case st.MayWrite || st.EndsTx:
				caughtUp, catalogue = false, false
			}
			continue
		}
		count.reads++
		if o.primary.PgConn().TxStatus() == 'E' {
			continue
		}
		if !caughtUp {
			wait, stop := context.WithTimeout(ctx, 10*time.Second)
			caughtUp = cluster.WaitCaughtUp(wait) == nil
			stop()
		}
		refusal, ran := o.refused(ctx, sql)
		if refusal != nil && !ofTheSession(ctx, cluster, sql) {
			count.refused++
			count.failures = append(count.failures, fmt.Sprintf("%s: the standby refuses %q: %v", file, sql, refusal))
		}
		left, ranToo := o.leaves(ctx, sql)
		if left != "" {
			count.left++
			count.failures = append(count.failures, fmt.Sprintf("%s: %q leaves %s", file, sql, left))
		}
		if ran && ranToo {
			count.ran++
		}
		if o.standby.IsClosed() {
			o.standby, _ = pgx.Connect(ctx, cluster.Standby(0).DSN())
		}
	}
}

// ofTheSession reports that a standby runs a statement in a session that carries no state. What a session with state asks for stays
// on the primary, whatever the statement: with pg_temp first in search_path, current_schema() makes a temporary schema.
func ofTheSession(ctx context.Context, cluster *dbtest.PostgresCluster, sql string) bool {
	conn, err := pgx.Connect(ctx, cluster.Standby(0).DSN())
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(ctx) }()
	return run(ctx, conn, sql) == nil
}

func (o *postgresOracle) readCatalogueIfIdle(ctx context.Context) {
	if o.primary.PgConn().TxStatus() == 'E' {
		return
	}
	rows, err := o.primary.Query(ctx, sqlclass.PostgresCatalogueQuery, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return
	}
	if catalogue, err := pgx.CollectRows(rows, pgx.RowToStructByName[sqlclass.CatalogueRow]); err == nil {
		o.classifier.SetCatalogue(catalogue)
	}
}

var selects = regexp.MustCompile(`(?is)^(\s|\(|--[^\n]*\n|/\*.*?\*/)*(select|with|values|table|explain)\b`)

func isSelect(sql string) bool { return selects.MatchString(sql) }
