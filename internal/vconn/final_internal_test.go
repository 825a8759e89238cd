package vconn

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFinalErrorsAreNotRunAgain: database/sql runs a statement again whose error matches driver.ErrBadConn; what has been tried
// twice already does not, and says the same otherwise.
func TestFinalErrorsAreNotRunAgain(t *testing.T) {
	op := &net.OpError{Op: "read", Err: context.DeadlineExceeded}
	err := final(fmt.Errorf("ask node: %w: %w", driver.ErrBadConn, op))
	require.NotErrorIs(t, err, driver.ErrBadConn)
	require.NotErrorIs(t, fmt.Errorf("outside: %w", err), driver.ErrBadConn)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var found *net.OpError
	require.ErrorAs(t, err, &found)
	require.Equal(t, "ask node: driver: bad connection: "+op.Error(), err.Error())
	require.NotErrorIs(t, final(driver.ErrBadConn), driver.ErrBadConn)
	require.NoError(t, final(nil))
	other := errors.New("other")
	require.Equal(t, other, final(other))
}
