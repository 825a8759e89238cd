package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// command is the built command.
var command string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "readroute-command-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		command = filepath.Join(dir, "readroute")
		if out, err := exec.Command("go", "build", "-o", command, ".").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the command: %v: %s\n", err, out)
			return 1
		}
		return m.Run()
	}())
}

// result is what the command did.
type result struct {
	code          int
	out, problems string
}

func runCommand(t *testing.T, in io.Reader, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command, args...)
	var out, problems bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &problems
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), problems.String()}
}

func TestClassifyAnswersEachLine(t *testing.T) {
	t.Parallel()

	r := runCommand(t, strings.NewReader(`{"id":"a","dialect":"pg","sql":"SELECT 1"}
{"id": 7, "dialect":"mysql", "sql":"SELECT * FROM t FOR UPDATE", "target":"ignored", "SQL":"SELECT 1", "Dialect":"none"}
{"dialect":"mariadb","sql":"SET @v = '<>'","id":{"a":[1,2]}}
{"dialect":"pg","sql":"SELECT 1 /* route:primary */"}
{"id":null,"dialect":"pg","sql":"SELECT mine() -- route:replica"}
{"id":"","dialect":"pg","sql":""}`), "classify")
	require.Zero(t, r.code, r.problems)
	require.Empty(t, r.problems)
	require.Equal(t, `{"id":"a","target":"replica","class":"read","reason":"nothing but reads"}
{"id":7,"target":"primary","class":"write","reason":"FOR UPDATE"}
{"id":{"a":[1,2]},"target":"pin","class":"session_state","reason":"@v"}
{"id":null,"target":"primary","class":"read","reason":"the hint route:primary"}
{"id":null,"target":"replica","class":"unknown","reason":"the hint route:replica"}
{"id":"","target":"primary","class":"unknown","reason":"no statement"}
`, r.out)
}

func TestClassifyEndsAtTheFirstBadLine(t *testing.T) {
	t.Parallel()

	const good = `{"id":1,"dialect":"pg","sql":"SELECT 1"}` + "\n"
	for name, c := range map[string]struct{ line, says string }{
		"text":            {"SELECT 1", "not a JSON object"},
		"nothing":         {"", "not a JSON object"},
		"list":            {`["pg","SELECT 1"]`, "not a JSON object"},
		"null":            {`null`, "not a JSON object"},
		"cut":             {`{"id":2,"dialect":"pg","sql":"SELECT`, "not a JSON object"},
		"two":             {`{"dialect":"pg","sql":"SELECT 1"} {}`, "not a JSON object"},
		"unknown dialect": {`{"id":2,"dialect":"oracle","sql":"SELECT 1"}`, `dialect "oracle" is not known`},
		"case of dialect": {`{"id":2,"dialect":"PG","sql":"SELECT 1"}`, `dialect "PG" is not known`},
		"no dialect":      {`{"id":2,"sql":"SELECT 1"}`, `there is no "dialect"`},
		"no sql":          {`{"id":2,"dialect":"pg","SQL":"SELECT 1"}`, `there is no "sql"`},
		"sql no string":   {`{"id":2,"dialect":"pg","sql":["SELECT 1"]}`, `"sql" is not a string`},
		"sql null":        {`{"id":2,"dialect":"pg","sql":null}`, `"sql" is not a string`},
		"not UTF-8":       {"{\"id\":2,\"dialect\":\"pg\",\"sql\":\"SELECT '\xff'\"}", "not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			r := runCommand(t, strings.NewReader(good+good+c.line+"\n"+good), "classify")
			require.Equal(t, exitUsage, r.code)
			require.Contains(t, r.problems, "line 3: ")
			require.Contains(t, r.problems, c.says)
			require.Equal(t, 2, strings.Count(r.out, "\n"), "what came before is answered")
		})
	}
}

func TestClassifyTakesLinesOfAnyLength(t *testing.T) {
	t.Parallel()

	long := "SELECT * FROM t WHERE id IN (" + strings.Repeat("1234567,", 12<<20/8) + "1)"
	var in bytes.Buffer
	lines := json.NewEncoder(&in)
	require.NoError(t, lines.Encode(map[string]string{"id": "list", "dialect": "mysql", "sql": long}))
	require.NoError(t, lines.Encode(map[string]string{"id": "name", "dialect": "pg", "sql": `SELECT "` + strings.Repeat("ä", 6<<20) + `"(1)`}))
	r := runCommand(t, &in, "classify")
	require.Zero(t, r.code, r.problems)
	answers := strings.Split(r.out, "\n")
	require.Equal(t, `{"id":"list","target":"replica","class":"read","reason":"nothing but reads"}`, answers[0])
	require.Less(t, len(answers[1]), 300, "a reason is short")
	require.True(t, json.Valid([]byte(answers[1])), answers[1])
	require.Contains(t, answers[1], `"target":"primary","class":"unknown"`)
}

func TestClassifyAnswersAtOnce(t *testing.T) {
	t.Parallel()

	cmd := exec.CommandContext(t.Context(), command, "classify")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	answers := json.NewDecoder(out)
	for i := range 3 {
		_, err := fmt.Fprintf(in, `{"id":%d,"dialect":"pg","sql":"SELECT 1"}`+"\n", i)
		require.NoError(t, err)
		var v struct{ ID int }
		require.NoError(t, answers.Decode(&v), "the answer comes before the next line is asked for")
		require.Equal(t, i, v.ID)
	}
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}

func TestUsage(t *testing.T) {
	t.Parallel()

	for _, args := range [][]string{{}, {"clasify"}, {"classify", "file.jsonl"}} {
		r := runCommand(t, strings.NewReader(""), args...)
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.problems, "usage: readroute classify")
		require.Empty(t, r.out)
	}
	r := runCommand(t, strings.NewReader(""), "help")
	require.Zero(t, r.code)
	require.Contains(t, r.out, "usage: readroute classify")
}

// TestClassifyCases asks the command about the cases of the classifier, as the reports of other routers' users have them.
func TestClassifyCases(t *testing.T) {
	t.Parallel()

	cases, err := os.ReadFile(filepath.Join("..", "..", "internal", "sqlclass", "testdata", "cases.jsonl"))
	require.NoError(t, err)
	r := runCommand(t, bytes.NewReader(cases), "classify")
	require.Zero(t, r.code, r.problems)
	words := map[string]string{"replica-ok": "replica", "primary": "primary", "pin-session": "pin"}
	answers := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	for i, line := range strings.Split(strings.TrimSuffix(string(cases), "\n"), "\n") {
		var c, v struct{ ID, Target, SQL string }
		require.NoError(t, json.Unmarshal([]byte(line), &c))
		require.NoError(t, json.Unmarshal([]byte(answers[i]), &v))
		require.Equal(t, c.ID, v.ID)
		require.Equal(t, words[c.Target], v.Target, "%s", c.SQL)
	}
}
