package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/compat/suite"
)

func TestAWholeRunHasEveryTest(t *testing.T) {
	results := map[string]string{"TestA": "PASS", "FuzzFormatDSN/seed#1": "SKIP"}
	for i := range fewest {
		results[fmt.Sprintf("TestA/%d", i)] = "PASS"
	}
	whole := suite.Outcome{Results: results}
	require.Empty(t, missing(whole, []string{"TestA", leftOut}))
	require.Equal(t, []string{"TestB was not run"}, missing(whole, []string{"TestA", "TestB"}))

	results["TestC"] = "SKIP" // no server
	require.Len(t, missing(whole, []string{"TestA"}), 1)
	delete(results, "TestC")
	results["TestA"], results["TestA/1"], results["TestA/2"] = "FAIL", "FAIL", "FAIL"
	require.Len(t, missing(whole, []string{"TestA"}), 1, "too few")
}

func TestVariantsHaveNamesOfTheirOwn(t *testing.T) {
	leave := 0
	pools := map[string]bool{}
	for _, v := range routedVariants {
		require.NotEmpty(t, v.pool)
		require.False(t, pools[v.pool], v.pool)
		pools[v.pool] = true
		leave += v.leave
	}
	require.Positive(t, leave, "reads leave the primary in one of them")
}
