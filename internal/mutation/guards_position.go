package main

// positionGuards see to it that positions are compared with what they can be compared with.
var positionGuards = []guard{
	{
		name: "a replica on a newer timeline proves nothing",
		file: "internal/core/position.go",
		old:  "p.System == q.System && p.Timeline == q.Timeline && p.Timeline != 0",
		new:  "p.System == q.System && p.Timeline <= q.Timeline && p.Timeline != 0",
		pkg:  "internal/core", test: "TestPositionCoveredBy",
	},
	simulated("read_your_writes", soon, guard{
		name: "a replica on an older timeline proves nothing",
		file: "internal/core/position.go",
		old:  "p.System == q.System && p.Timeline == q.Timeline && p.Timeline != 0",
		new:  "p.System == q.System && p.Timeline >= q.Timeline && q.Timeline != 0",
	}),
	{
		name: "positions of two timelines are merged by keeping both, never by the maximum",
		file: "internal/core/position.go",
		old:  "cmp.Compare(p.System, q.System), cmp.Compare(p.Timeline, q.Timeline))",
		new:  "cmp.Compare(p.System, q.System))",
		pkg:  "internal/core", test: "TestMergePositions",
	},
	{
		name: "a write that changes nothing needs what was there",
		file: "internal/mysql/probe.go",
		old:  "MovedSince(base.Position.GTIDs()).Union(s.Own.GTIDs())",
		new:  "MovedSince(base.Position.GTIDs())",
		pkg:  "internal/mysql", test: "TestNeed",
	},
	{
		name: "a token of GTIDs is never empty: when nothing has moved, it is the whole set",
		file: "internal/mysql/probe.go",
		old:  "\tif need.IsZero() {\n\t\treturn full\n\t}",
		new:  "",
		pkg:  "internal/mysql", test: "TestNeed",
	},
	simulated("read_your_writes", late, guard{
		name: "on MariaDB the order of a domain proves nothing where the primary has logged something else",
		file: "internal/core/coverage.go",
		old:  "switch p.coveredBy(replay, s.history()) {",
		new: "switch q := p; {\n\t\t\tcase p.Kind == KindMariaDB && p.Domains().Missing(replay.Domains()) == 0:\n\t\t\t\tcontinue\n\t\t\tdefault:\n\t\t\t\tp = q\n\t\t\t}\n" +
			"\t\t\tswitch p.coveredBy(replay, s.history()) {",
	}),
	{
		name: "a floor on MySQL is read from gtid_owned as well, not from gtid_executed alone",
		file: "internal/mysql/probe.go",
		old:  "\tif !p.owned.IsZero() {",
		new:  "\tif false && !p.owned.IsZero() {",
		pkg:  "internal/mysql", test: "TestParseProbeRefuses",
	},
	{
		name: "a floor on MariaDB is read from gtid_binlog_pos, not from gtid_slave_pos",
		file: "internal/mysql/probe.go",
		old:  "core.MariaDBPosition(p.binlog.Union(list), size)",
		new:  "core.MariaDBPosition(list, size)",
		pkg:  "internal/mysql", test: "TestParseProbeRefuses",
	},
	{
		name: "on MariaDB what was written under another server_id is in the primary's position",
		file: "internal/mysql/probe.go",
		old:  "list = p.current.Furthest(p.binlog)",
		new:  "list = p.current",
		pkg:  "internal/mysql", test: "TestParseProbeRefuses",
	},
	{
		name: "a floor on a standby is one record beyond what counts as replayed",
		file: "internal/postgres/engine.go",
		old:  "\t\treplayed.LSN++\n",
		new:  "",
		pkg:  "internal/postgres", test: "TestParseProbe",
	},
	{
		name: "a loss is judged by the primary's position of after the token came, not by an old snapshot",
		file: "internal/router/router.go",
		old:  "\t\tc := r.Captures.Join()\n\t\tsession.Judge(",
		new: "\t\tknown := r.Monitor.Snapshot().Nodes[r.Monitor.Snapshot().Primary].Sample\n\t\tc := core.NewCapture(nil)\n" +
			"\t\tc.Complete(core.CaptureResult{Position: known.Position, Reported: known.Reported, History: known.History, Start: known.Start, At: known.Ended})\n" +
			"\t\tsession.Judge(",
		pkg: "internal/router", test: "TestRouteJudgesPositions",
	},
	{
		name: "what the new timeline does not have is lost, however far that has grown",
		file: "internal/core/session.go",
		old:  "r.Recovered != 0 && p.LSN > r.Recovered:",
		new:  "r.Recovered != 0 && p.LSN > r.Reported:",
		pkg:  "internal/core", test: "TestSessionJudge",
	},
	simulated("read_your_writes", late, guard{
		name: "what a token brings counts",
		file: "internal/core/session_token.go",
		old:  "\tfor _, e := range t.Entries() {\n\t\ts.Require(e, window)\n\t}",
		new:  "\tfor _, e := range t.Entries() {\n\t\te.Positions = nil\n\t\ts.Require(e, window)\n\t}",
	}),
}
