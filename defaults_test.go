package readroute_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute"
)

// TestDefaultsAreDocumented holds the last line of each field's doc to the constants.
func TestDefaultsAreDocumented(t *testing.T) {
	source := string(readFile(t, "options.go"))
	documented := map[string]string{}
	doc := ""
	field := regexp.MustCompile(`^\t([A-Z]\w*) +[\w.\[\]]+$`)
	for line := range strings.Lines(source) {
		line = strings.TrimRight(line, "\n")
		if text, ok := strings.CutPrefix(line, "\t// Defaults to "); ok {
			doc = strings.TrimSuffix(text, ".")
		} else if m := field.FindStringSubmatch(line); m != nil && doc != "" {
			documented[m[1]] = doc
			doc = ""
		}
	}
	for name, value := range map[string]any{
		"Name":            fmt.Sprintf("%q", readroute.DefaultName),
		"Strategy":        "PositionWait(" + spoken(readroute.DefaultWaitTimeout) + ")",
		"StickyWindow":    readroute.DefaultStickyWindow,
		"MaxLag":          readroute.DefaultMaxLag,
		"ProbeInterval":   readroute.DefaultProbeInterval,
		"ProbeTimeout":    readroute.DefaultProbeTimeout,
		"CaptureTimeout":  readroute.DefaultCaptureTimeout,
		"FallbackLimit":   fmt.Sprintf("half of the primary's MaxOpenConns, or %d when that is not limited", readroute.DefaultFallbackLimit),
		"MaxWaiters":      "10,000",
		"MaxIdleConns":    fmt.Sprintf("%d, or MaxOpenConns when that is lower", readroute.DefaultMaxIdleConns),
		"ConnMaxIdleTime": readroute.DefaultConnMaxIdleTime,
	} {
		want := fmt.Sprint(value)
		if d, ok := value.(time.Duration); ok {
			want = spoken(d)
		}
		require.Equal(t, want, documented[name], name)
	}
	require.Equal(t, 10_000, readroute.DefaultMaxWaiters)
	require.Equal(t, 2*time.Minute, readroute.DefaultClockSkew)
}

// spoken writes a duration as the docs do.
func spoken(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return fmt.Sprintf("%d minutes", d/time.Minute)
}
