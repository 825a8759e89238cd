package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

func serverSays(severity, code string) error {
	return fmt.Errorf("query: %w", &pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: severity, Code: code})
}

// TestErrorClasses: what an error of a statement means. Refused: nothing was committed. Down: the server cannot be
// reached. Retry: a read may run once more, and why.
func TestErrorClasses(t *testing.T) {
	for name, c := range map[string]struct {
		err               error
		refused, readOnly bool
		down              bool
		retry             core.Retry
	}{
		"a constraint":                        {err: serverSays("ERROR", "23505"), refused: true},
		"a syntax error":                      {err: serverSays("ERROR", "42601"), refused: true},
		"statement timeout":                   {err: serverSays("ERROR", "57014"), refused: true},
		"no right":                            {err: serverSays("ERROR", "42501"), refused: true},
		"outcome not known":                   {err: serverSays("ERROR", "40003")},
		"rolled back instead":                 {err: pgx.ErrTxCommitRollback, refused: true, down: true, retry: core.RetryConnection},
		"read-only":                           {err: serverSays("ERROR", "25006"), refused: true, readOnly: true, retry: core.RetryRefused},
		"not on a standby":                    {err: serverSays("ERROR", "0A000"), refused: true, retry: core.RetryRefused},
		"no such table":                       {err: serverSays("ERROR", "42P01"), refused: true, retry: core.RetrySchema},
		"no such column":                      {err: serverSays("ERROR", "42703"), refused: true, retry: core.RetrySchema},
		"no such function":                    {err: serverSays("ERROR", "42883"), refused: true, retry: core.RetrySchema},
		"no such type":                        {err: serverSays("ERROR", "42704"), refused: true, retry: core.RetrySchema},
		"no such schema":                      {err: serverSays("ERROR", "3F000"), refused: true, retry: core.RetrySchema},
		"recovery conflict":                   {err: serverSays("ERROR", "40001"), refused: true, retry: core.RetryConflict},
		"recovery conflict over buffers":      {err: serverSays("ERROR", "40P01"), refused: true, retry: core.RetryConflict},
		"ended by a recovery conflict":        {err: serverSays("FATAL", "40001"), retry: core.RetryConflict},
		"ended by an administrator":           {err: serverSays("FATAL", "57P01"), down: true, retry: core.RetryConnection},
		"crash of another session":            {err: serverSays("WARNING", "57P02"), refused: true, down: true, retry: core.RetryConnection},
		"starting up":                         {err: serverSays("FATAL", "57P03"), down: true, retry: core.RetryConnection},
		"idle for too long":                   {err: serverSays("FATAL", "57P05"), down: true, retry: core.RetryConnection},
		"too many connections":                {err: serverSays("FATAL", "53300"), retry: core.RetryConnection},
		"wrong password":                      {err: serverSays("FATAL", "28P01"), retry: core.RetryConnection},
		"no such database":                    {err: serverSays("FATAL", "3D000"), retry: core.RetryConnection},
		"protocol violation":                  {err: serverSays("ERROR", "08P01"), refused: true, retry: core.RetryConnection},
		"panic":                               {err: serverSays("PANIC", "XX000"), retry: core.RetryConnection},
		"the connection broke":                {err: fmt.Errorf("read: %w", io.ErrUnexpectedEOF), down: true, retry: core.RetryConnection},
		"old server, severity in its own way": {err: &pgconn.PgError{Severity: "FATAL", Code: "57P01"}, down: true, retry: core.RetryConnection},
		"a code of another length":            {err: &pgconn.PgError{Severity: "ERROR", Code: "57"}, refused: true},
		"the plan is stale": {
			err:     &pgconn.PgError{Severity: "ERROR", Code: "0A000", Routine: "RevalidateCachedQuery"},
			refused: true, retry: core.RetryPlan,
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.refused, engine.Refused(c.err), "refused")
			require.Equal(t, c.readOnly, engine.ReadOnly(c.err), "read-only")
			require.Equal(t, c.down, engine.Down(c.err), "down")
			require.Equal(t, c.retry, engine.Retry(c.err), "retry")
			require.False(t, engine.NotSent(c.err), "not sent")
		})
	}
	require.False(t, engine.Refused(context.Canceled))
	require.False(t, engine.Refused(errors.New("anything")))
}

// otherError is the error of a driver that tells the SQLSTATE and nothing else.
type otherError struct{ code string }

func (e otherError) Error() string    { return "the server says " + e.code }
func (e otherError) SQLState() string { return e.code }

// fieldsError tells the protocol's error fields as well.
type fieldsError struct {
	otherError
	fields map[byte]string
}

func (e *fieldsError) Get(field byte) string { return e.fields[field] }

func driverSays(code string, fields map[byte]string) error {
	return fmt.Errorf("query: %w", &fieldsError{otherError{code}, fields})
}

// TestErrorClassesOfOtherDrivers: what is known of an error of pgx is known of any that tells its SQLSTATE. Whether the
// session was ended needs the severity; without one, what may have been committed is not taken for refused.
func TestErrorClassesOfOtherDrivers(t *testing.T) {
	english := func(severity string) map[byte]string { return map[byte]string{'S': severity} }
	for name, c := range map[string]struct {
		err               error
		refused, readOnly bool
		down              bool
		retry             core.Retry
	}{
		"a constraint":             {err: driverSays("23505", english("ERROR")), refused: true},
		"no right":                 {err: driverSays("28000", english("ERROR")), refused: true},
		"read-only":                {err: driverSays("25006", english("ERROR")), refused: true, readOnly: true, retry: core.RetryRefused},
		"not on a standby":         {err: driverSays("0A000", english("ERROR")), refused: true, retry: core.RetryRefused},
		"no such column":           {err: driverSays("42703", english("ERROR")), refused: true, retry: core.RetrySchema},
		"recovery conflict":        {err: driverSays("40001", english("ERROR")), refused: true, retry: core.RetryConflict},
		"ended by a conflict":      {err: driverSays("40001", english("FATAL")), retry: core.RetryConflict},
		"ended by an operator":     {err: driverSays("57P01", english("FATAL")), down: true, retry: core.RetryConnection},
		"ended while idle":         {err: driverSays("25P03", english("FATAL")), retry: core.RetryConnection},
		"too many connections":     {err: driverSays("53300", english("FATAL")), retry: core.RetryConnection},
		"the server's own words":   {err: driverSays("25P03", map[byte]string{'S': "FATALE", 'V': "FATAL"}), retry: core.RetryConnection},
		"protocol violation":       {err: driverSays("08P01", english("ERROR")), refused: true, retry: core.RetryConnection},
		"outcome not known":        {err: driverSays("40003", english("ERROR"))},
		"a constraint, in German":  {err: driverSays("23505", english("FEHLER")), refused: true},
		"out of memory, in German": {err: driverSays("53200", english("FEHLER"))},
		"the plan is stale": {
			err:     driverSays("0A000", map[byte]string{'S': "ERROR", 'R': "RevalidateCachedQuery"}),
			refused: true, retry: core.RetryPlan,
		},

		"code alone: a constraint":      {err: otherError{"23505"}, refused: true},
		"code alone: syntax":            {err: otherError{"42601"}, refused: true},
		"code alone: timeout":           {err: otherError{"57014"}, refused: true},
		"code alone: serialization":     {err: otherError{"40001"}, refused: true, retry: core.RetryConflict},
		"code alone: read-only":         {err: otherError{"25006"}, refused: true, readOnly: true, retry: core.RetryRefused},
		"code alone: no such table":     {err: otherError{"42P01"}, refused: true, retry: core.RetrySchema},
		"code alone: shut down":         {err: otherError{"57P01"}, down: true, retry: core.RetryConnection},
		"code alone: it broke":          {err: otherError{"08006"}, down: true, retry: core.RetryConnection},
		"code alone: ended while idle":  {err: otherError{"25P03"}},
		"code alone: internal":          {err: otherError{"XX000"}},
		"code alone: outcome not known": {err: otherError{"40003"}},
		"no code":                       {err: otherError{""}, down: true, retry: core.RetryConnection},
		"a code of another length":      {err: otherError{"08"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.refused, engine.Refused(c.err), "refused")
			require.Equal(t, c.readOnly, engine.ReadOnly(c.err), "read-only")
			require.Equal(t, c.down, engine.Down(c.err), "down")
			require.Equal(t, c.retry, engine.Retry(c.err), "retry")
			require.False(t, engine.NotSent(c.err), "not sent")
		})
	}
}
