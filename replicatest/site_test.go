package replicatest_test

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var readOnly = &sql.TxOptions{ReadOnly: true}

// line is the place in detector_test.go that ends in a comment, as it is told.
func line(t testing.TB, comment string) string {
	t.Helper()
	source, err := os.ReadFile("detector_test.go")
	require.NoError(t, err)
	for i, text := range strings.Split(string(source), "\n") {
		if strings.HasSuffix(text, comment) {
			return fmt.Sprintf("replicatest/detector_test.go:%d:", i+1)
		}
	}
	require.Fail(t, "no such line")
	return ""
}
