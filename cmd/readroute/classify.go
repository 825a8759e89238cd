package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/readroute/readroute/internal/sqlclass"
)

// maxReason is how many bytes a reason may have: it can quote a token of the text, which may be megabytes.
const maxReason = 200

var dialects = map[string]sqlclass.Dialect{"pg": sqlclass.PostgreSQL, "mysql": sqlclass.MySQL, "mariadb": sqlclass.MariaDB}

// verdict is a line of the output.
type verdict struct {
	ID     json.RawMessage `json:"id"`
	Target string          `json:"target"`
	Class  string          `json:"class"`
	Reason string          `json:"reason"`
}

// lineError is what is wrong with a line of the input.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }

func (e *lineError) Unwrap() error { return e.err }

// classify answers the lines of in one by one. A line may be as long as memory allows. What was answered before an error has
// been written when it returns.
func classify(in io.Reader, out io.Writer) (err error) {
	reader, writer := bufio.NewReaderSize(in, 64<<10), bufio.NewWriter(out)
	defer func() { err = errors.Join(err, writer.Flush()) }()
	answers := json.NewEncoder(writer)
	answers.SetEscapeHTML(false)
	for n := 1; ; n++ {
		line, readErr := reader.ReadBytes('\n')
		if readErr != nil && readErr != io.EOF {
			return fmt.Errorf("read line %d: %w", n, readErr)
		}
		if len(line) > 0 {
			v, err := answer(bytes.TrimSuffix(line, []byte("\n")))
			if err != nil {
				return &lineError{n, err}
			}
			if err := answers.Encode(v); err != nil {
				return fmt.Errorf("write the answer to line %d: %w", n, err)
			}
		}
		if readErr == io.EOF {
			return nil
		}
		if reader.Buffered() == 0 { // whoever talks to the command line by line waits for this
			if err := writer.Flush(); err != nil {
				return fmt.Errorf("write the answer to line %d: %w", n, err)
			}
		}
	}
}

// answer classifies the statement of one line.
func answer(line []byte) (verdict, error) {
	// encoding/json would put another character in the place of bytes that are not UTF-8, and it takes names of fields in any case.
	if !utf8.Valid(line) {
		return verdict{}, errors.New("not UTF-8")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return verdict{}, fmt.Errorf("not a JSON object: %w", err)
	}
	if fields == nil {
		return verdict{}, errors.New("not a JSON object: null")
	}
	name, err := text(fields, "dialect")
	if err != nil {
		return verdict{}, err
	}
	dialect, ok := dialects[name]
	if !ok {
		return verdict{}, fmt.Errorf("dialect %q is not known: want pg, mysql or mariadb", name)
	}
	query, err := text(fields, "sql")
	if err != nil {
		return verdict{}, err
	}
	st := sqlclass.ClassifyText(dialect, query)
	return verdict{ID: fields["id"], Target: st.Target().String(), Class: st.Class.String(), Reason: short(st.Reason())}, nil
}

// text returns a field that must be a string.
func text(fields map[string]json.RawMessage, name string) (string, error) {
	raw, ok := fields[name]
	if !ok {
		return "", fmt.Errorf("there is no %q", name)
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", fmt.Errorf("%q is not a string", name)
	}
	return *s, nil
}

// short cuts a reason between two characters.
func short(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	end := maxReason
	for !utf8.RuneStart(reason[end]) {
		end--
	}
	return reason[:end] + "..."
}
