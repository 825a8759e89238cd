package core_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

func TestGTIDBinary(t *testing.T) {
	for _, text := range []string{
		"", uuidA + ":1", uuidA + ":1-5", uuidA + ":1-5:7:9-9223372036854775806", uuidA + ":3", uuidA + ":1-5," + uuidB + ":2-3",
		uuidA + ":1-5:tag_a:1-3:tag_b:7", uuidA + ":tag_a:1",
	} {
		s := gtids(t, text)
		b := s.AppendBinary([]byte{1})[1:]
		got, rest, err := core.CutGTIDSet(append(b, 9))
		require.NoError(t, err, text)
		require.Equal(t, s, got, text)
		require.Equal(t, []byte{9}, rest)
	}
	require.Less(t, len(gtids(t, uuidA+":1-1000000").AppendBinary(nil)), 25)
	for _, text := range []string{"", "0-1-1", "0-1-5,0-2-6,4294967295-4294967295-18446744073709551615"} {
		g := maria(t, text)
		got, rest, err := core.CutMariaDBGTID(append(g.AppendBinary(nil), 9))
		require.NoError(t, err, text)
		require.Equal(t, g, got, text)
		require.Equal(t, []byte{9}, rest)
	}
}

// FuzzGTIDBinary: whatever the bytes are, reading ends, and what is read is written the same way again.
func FuzzGTIDBinary(f *testing.F) {
	f.Add(gtids(f, uuidA+":1-5:7,"+uuidB+":tag:1").AppendBinary(nil))
	f.Add(maria(f, "0-1-5,1-2-6").AppendBinary(nil))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, rest, err := core.CutGTIDSet(b); err == nil {
			again, left, err := core.CutGTIDSet(s.AppendBinary(nil))
			require.NoError(t, err)
			require.Empty(t, left)
			require.Equal(t, s, again)
			parsed, err := core.ParseGTIDSet(s.String())
			require.NoError(t, err)
			require.Equal(t, s, parsed)
			require.LessOrEqual(t, len(rest), len(b))
		}
		if g, _, err := core.CutMariaDBGTID(b); err == nil {
			again, left, err := core.CutMariaDBGTID(g.AppendBinary(nil))
			require.NoError(t, err)
			require.Empty(t, left)
			require.Equal(t, g, again)
		}
	})
}

// TestPositionOfGTIDs: what a GTID position asks for is compared by what is in it, and its measure decides nothing.
func TestPositionOfGTIDs(t *testing.T) {
	mysql := func(text string, measure core.LSN) core.Position { return core.MySQLPosition(gtids(t, text), measure) }
	mariadb := func(text string, measure core.LSN) core.Position {
		return core.MariaDBPosition(maria(t, text), measure)
	}
	a5, a9 := mysql(uuidA+":1-5", 5), mysql(uuidA+":1-9", 9)
	gap := mysql(uuidA+":1-3:5-20", 19)
	both := mysql(uuidA+":1-5,"+uuidB+":1", 6)
	for name, c := range map[string]struct {
		required, replay core.Position
		want             core.Coverage
	}{
		"subset":                      {a5, a9, core.Covered},
		"equal":                       {a5, a5, core.Covered},
		"behind":                      {a9, a5, core.NotCovered},
		"a gap, although it has more": {a5, gap, core.NotCovered},
		"of another server":           {mysql(uuidB+":1", 1), a9, core.Incomparable},
		"of another server as well":   {both, a9, core.Incomparable},
		"nothing":                     {core.MySQLPosition(core.GTIDSet{}, 7), a9, core.Incomparable},
		"no replay":                   {a5, core.Position{}, core.Incomparable},
		"of another kind":             {a5, at(1, 100), core.Incomparable},
		"of PostgreSQL":               {at(1, 100), a5, core.Incomparable},
		"MariaDB, reached":            {mariadb("0-1-5", 5), mariadb("0-1-6", 6), core.Covered},
		"MariaDB, behind":             {mariadb("0-1-5", 5), mariadb("0-1-4", 4), core.NotCovered},
		"MariaDB, by another server":  {mariadb("0-1-105", 5), mariadb("0-2-106", 6), core.Incomparable},
		"MariaDB, another domain":     {mariadb("1-1-5", 5), mariadb("0-1-6", 6), core.Incomparable},
		"MariaDB and MySQL":           {mariadb("0-1-5", 5), a9, core.Incomparable},
	} {
		require.Equal(t, c.want, c.required.CoveredBy(c.replay), name)
		s := &core.Snapshot{Nodes: []core.NodeView{{}}}
		require.Equal(t, c.want, s.Covers(c.replay, []core.Position{c.required}, fixtureNow), name)
	}

	// What the primary has logged puts the writes of two servers on one line.
	s := &core.Snapshot{Nodes: []core.NodeView{{Role: core.RolePrimary}}}
	s.Nodes[0].Sample.Role = core.RolePrimary
	s.Nodes[0].Sample.History = maria(t, "0-1-105,0-2-106")
	require.Equal(t, core.Covered, s.Covers(mariadb("0-2-106", 6), []core.Position{mariadb("0-1-105", 5)}, fixtureNow))
	s.Nodes[0].Sample.History = maria(t, "0-1-104,0-2-106")
	require.Equal(t, core.Incomparable, s.Covers(mariadb("0-2-106", 6), []core.Position{mariadb("0-1-105", 5)}, fixtureNow))

	merged, ok := core.MergePositions([]core.Position{a9}, mysql(uuidB+":1-2", 30))
	require.True(t, ok)
	require.Equal(t, []core.Position{mysql(uuidA+":1-9,"+uuidB+":1-2", 30)}, merged)
	merged, ok = core.MergePositions(merged, a5)
	require.True(t, ok)
	require.Len(t, merged, 1)
	merged, ok = core.MergePositions(merged, at(1, 5))
	require.True(t, ok)
	require.Len(t, merged, 2, "kinds do not mix")
	require.Equal(t, uuidA+":1-5", a5.String())
	require.Equal(t, "0-1-5", mariadb("0-1-5", 1).String())
	require.Equal(t, gtids(t, uuidA+":1-5"), a5.GTIDs())
	require.True(t, a5.Domains().IsZero())
	require.True(t, at(1, 1).GTIDs().IsZero())
}

// TestSessionJudgeOfGTIDs: a primary that lacks what a session needs has lost it, unless it has never heard of who wrote it.
func TestSessionJudgeOfGTIDs(t *testing.T) {
	mysql := func(text string) core.Position { return core.MySQLPosition(gtids(t, text), 1) }
	mariadb := func(text string) core.Position { return core.MariaDBPosition(maria(t, text), 1) }
	now := mysql(uuidA + ":1-8")
	for name, c := range map[string]struct {
		position core.Position
		answer   core.CaptureResult
		verdict  core.Verdict
		after    core.Position
	}{
		"it has it":            {mysql(uuidA + ":1-5"), answer(startA, now), core.VerdictNone, mysql(uuidA + ":1-5")},
		"it lacks the end":     {mysql(uuidA + ":1-9"), answer(startA, now), core.VerdictLost, now},
		"it lacks one":         {mysql(uuidA + ":1-5"), answer(startA, mysql(uuidA+":1-3:5-8")), core.VerdictLost, mysql(uuidA + ":1-3:5-8")},
		"it does not know who": {mysql(uuidB + ":1"), answer(startA, now), core.VerdictNone, mysql(uuidB + ":1")},
		"of another kind":      {at(1, 5), answer(startA, now), core.VerdictLost, now},
		"MariaDB: logged": {
			mariadb("0-1-105"), core.CaptureResult{Position: mariadb("0-2-106"), History: maria(t, "0-1-105,0-2-106"), Start: startA},
			core.VerdictNone, mariadb("0-1-105"),
		},
		"MariaDB: hidden by the order": {
			mariadb("0-1-105"), core.CaptureResult{Position: mariadb("0-2-106"), History: maria(t, "0-1-104,0-2-106"), Start: startA},
			core.VerdictLost, mariadb("0-2-106"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			var s core.Session
			s.Require(core.Entry{Cluster: cluster, Positions: []core.Position{c.position}}, window)
			capture := core.NewCapture(nil)
			s.Judge(cluster, fixtureNow, []core.Position{c.position}, capture, window)
			capture.Complete(c.answer)
			require.Equal(t, []core.Position{c.after}, view(t, &s, c.verdict).Positions)
		})
	}
}

// TestSessionNeedsWhatTheCaptureSaysItNeeds: the whole of what a server has executed is no token.
func TestSessionNeedsWhatTheCaptureSaysItNeeds(t *testing.T) {
	var s core.Session
	capture := core.NewCapture(nil)
	s.Wrote(cluster, fixtureNow, startA, capture, false, window)
	need := core.MySQLPosition(gtids(t, uuidA+":1-9"), 30)
	capture.Complete(core.CaptureResult{
		Position: core.MySQLPosition(gtids(t, uuidA+":1-9,"+uuidB+":1-21"), 30), Need: need, Start: startA, At: fixtureNow,
	})
	got := view(t, &s, core.VerdictNone)
	require.Equal(t, []core.Position{need}, got.Positions)
	require.Equal(t, fixtureNow, got.CapturedAt)
}
