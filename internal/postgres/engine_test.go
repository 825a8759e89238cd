package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
	"github.com/readroute/readroute/internal/monitor"
	"github.com/readroute/readroute/internal/postgres"
)

var engine postgres.Engine

func position(timeline uint32, lsn core.LSN) core.Position {
	return core.Position{Kind: core.KindPostgres, System: 7672, Timeline: timeline, LSN: lsn}
}

// answers are what the two kinds of servers say, with the last words replaced.
func primaryRow(change map[int]string) []string {
	return replaced([]string{"false", "7672", "1790000000123456", "1/7D000000", "1/7CFFFF00", "0000000A", "0", "8192", "16777216", "200000", ""}, change)
}

func replicaRow(change map[int]string) []string {
	return replaced([]string{"true", "7672", "1790000000123456", "1/7D000000", "", "10", "1", "8192", "16777216", "200000", "1/7D000000"}, change)
}

func replaced(row []string, change map[int]string) []string {
	for i, v := range change {
		row[i] = v
	}
	return row
}

func TestParseProbe(t *testing.T) {
	start := core.Start{System: 7672, At: 1790000000123456}
	for name, c := range map[string]struct {
		row  []string
		want core.Sample
	}{
		"a primary": {primaryRow(nil), core.Sample{
			Start: start, Role: core.RolePrimary, Position: position(10, 0x17D000000), Reported: 0x17D000000,
			Flush: 0x17CFFFF00, FlushDelay: 600 * time.Millisecond,
		}},
		"past a page header": {primaryRow(map[int]string{3: "1/7D002018"}), core.Sample{
			Start: start, Role: core.RolePrimary, Position: position(10, 0x17D002000), Reported: 0x17D002018,
			Flush: 0x17CFFFF00, FlushDelay: 600 * time.Millisecond,
		}},
		"past a segment header": {primaryRow(map[int]string{3: "1/7D000028"}), core.Sample{
			Start: start, Role: core.RolePrimary, Position: position(10, 0x17D000000), Reported: 0x17D000028,
			Flush: 0x17CFFFF00, FlushDelay: 600 * time.Millisecond,
		}},
		"other sizes": {primaryRow(map[int]string{3: "1/7D004028", 7: "16384", 8: "1048576", 9: "10000"}), core.Sample{
			Start: start, Role: core.RolePrimary, Position: position(10, 0x17D004028), Reported: 0x17D004028,
			Flush: 0x17CFFFF00, FlushDelay: 30 * time.Millisecond,
		}},
		"a replica": {replicaRow(nil), core.Sample{
			Start: start, Role: core.RoleReplica, Position: position(10, 0x17D000000), Reported: 0x17D000000, Seen: position(10, 0x17D000000),
			FlushDelay: 600 * time.Millisecond, HasSource: true,
		}},
		"a replica with more to replay": {replicaRow(map[int]string{10: "1/7D002018"}), core.Sample{
			Start: start, Role: core.RoleReplica, Position: position(10, 0x17D000000), Reported: 0x17D000000, Seen: position(10, 0x17D000001),
			FlushDelay: 600 * time.Millisecond, HasSource: true,
		}},
		"a replica that never streamed": {replicaRow(map[int]string{10: ""}), core.Sample{
			Start: start, Role: core.RoleReplica, Position: position(10, 0x17D000000), Reported: 0x17D000000, SeenUnknown: true,
			FlushDelay: 600 * time.Millisecond, HasSource: true,
		}},
		"a replica is not rounded": {replicaRow(map[int]string{3: "1/7D002018"}), core.Sample{
			Start: start, Role: core.RoleReplica, Position: position(10, 0x17D002018), Reported: 0x17D002018, Seen: position(10, 0x17D002018),
			FlushDelay: 600 * time.Millisecond, HasSource: true,
		}},
		"a replica that does not tell its timeline": {replicaRow(map[int]string{5: "3+"}), core.Sample{
			Start: start, Role: core.RoleReplica, Position: position(0, 0x17D000000), Reported: 0x17D000000, Seen: position(0, 0x17D000000),
			FlushDelay: 600 * time.Millisecond, HasSource: true, TimelineFloor: 3,
		}},
		"a replica that knows nothing": {replicaRow(map[int]string{3: "", 5: "", 6: "0"}), core.Sample{
			Start: start, Role: core.RoleReplica, FlushDelay: 600 * time.Millisecond, SeenUnknown: true,
		}},
		"text as another driver prints it": {replicaRow(map[int]string{0: "t"}), core.Sample{
			Start: start, Role: core.RoleReplica, Position: position(10, 0x17D000000), Reported: 0x17D000000, Seen: position(10, 0x17D000000),
			FlushDelay: 600 * time.Millisecond, HasSource: true,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := engine.ParseProbe(c.row)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// TestParseProbeMalformed: what cannot be read proves nothing, least of all that a server is a primary.
func TestParseProbeMalformed(t *testing.T) {
	for name, row := range map[string][]string{
		"no row":                     nil,
		"too few":                    primaryRow(nil)[:9],
		"too many":                   append(primaryRow(nil), ""),
		"no role":                    primaryRow(map[int]string{0: ""}),
		"another role":               primaryRow(map[int]string{0: "off"}),
		"no system":                  primaryRow(map[int]string{1: ""}),
		"a system that is no number": primaryRow(map[int]string{1: "x"}),
		"no start":                   replicaRow(map[int]string{2: ""}),
		"a malformed position":       replicaRow(map[int]string{3: "1/"}),
		"no position of a primary":   primaryRow(map[int]string{3: "", 4: ""}),
		"no flush position":          primaryRow(map[int]string{4: ""}),
		"a malformed flush position": primaryRow(map[int]string{4: "1"}),
		"no timeline of a primary":   primaryRow(map[int]string{5: ""}),
		"timeline zero":              primaryRow(map[int]string{5: "00000000"}),
		"a timeline that is none":    replicaRow(map[int]string{5: "A"}),
		"a timeline out of range":    replicaRow(map[int]string{5: "4294967296"}),
		"a lower bound that is none": replicaRow(map[int]string{5: "+"}),
		"no block size":              primaryRow(map[int]string{7: ""}),
		"no segment size":            primaryRow(map[int]string{8: "16MB"}),
		"no writer delay":            replicaRow(map[int]string{9: ""}),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := engine.ParseProbe(row)
			require.ErrorContains(t, err, "read the server's position")
		})
	}
}

func TestParseSelf(t *testing.T) {
	b, err := engine.ParseSelf([]string{"77", "1790000000123456"})
	require.NoError(t, err)
	require.Equal(t, monitor.Backend{PID: 77, Start: 1790000000123456}, b)
	for _, row := range [][]string{nil, {"77"}, {"77", ""}, {"", "5"}, {"-1", "5"}, {"77", "5", "6"}} {
		_, err := engine.ParseSelf(row)
		require.Error(t, err, row)
	}
}
