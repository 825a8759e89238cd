package main

// captureGuards see to it that a write's position is read when, and where, it covers the write.
var captureGuards = []guard{
	simulated("read_your_writes", soon, guard{
		name: "a transaction's position is read after its commit",
		file: "internal/vconn/tx.go",
		old:  "\terr := t.native.Commit()\n\tt.over()\n\tif open && c.lost(t.h, err) {",
		new: "\tif c.writes.wrote {\n\t\tc.wrote(c.writes.inTx, t.h)\n\t\t_ = c.cluster.Router.Captures.Join().Wait(t.ctx)\n\t\tc.writes.wrote = false\n\t}\n" +
			"\terr := t.native.Commit()\n\tt.over()\n\tif open && c.lost(t.h, err) {",
	}),
	simulated("read_your_writes", soon, guard{
		name: "a write that hands out rows is over when they are",
		file: "internal/vconn/writes.go",
		old:  "\tcase err == nil && rows:\n\t\tc.began(ctx)\n\tcase err == nil:",
		new:  "\tcase err == nil:",
	}),
	{
		name: "while a write hands out rows, its session reads from the primary",
		file: "internal/core/decide.go",
		old:  "\tif need.Open {\n\t\treturn stay(in, s, ReasonCapturePending)\n\t}",
		new:  "",
		pkg:  "internal/core", test: "TestDecideFixtures",
	},
	{
		name: "a write that has not returned when its client is answered is in the answer",
		file: "carrier.go",
		old:  "\twriting := s.core.Writing()\n",
		new:  "\twriting := false\n",
		pkg:  ".", test: "TestMiddlewareWriteUnderWay",
	},
	{
		name: "a commit that has not returned when its client is answered is in the answer",
		file: "internal/vconn/tx.go",
		old:  "\t\tt.c.beginAll(t.c.writes.inTx)\n",
		new:  "",
		pkg:  ".", test: "TestMiddlewareCommitUnderWay",
	},
	{
		name: "a position read serves nobody who joined after it had begun",
		file: "internal/monitor/captures.go",
		old:  "\ts.Since = c.since\n\tif err == nil && s.Role != core.RolePrimary {",
		new: "\ts.Since = c.since\n\tif next := c.next.Swap(nil); next != nil {\n\t\tc.batch = append(c.batch, next)\n\t}\n" +
			"\tif err == nil && s.Role != core.RolePrimary {",
		pkg: "internal/monitor", test: "TestCaptureBeginsAfterTheJoin",
	},
	{
		name: "a write that is kept out of the log holds its session to the primary",
		file: "internal/vconn/writes.go",
		old:  "\tif h.unlogged {\n",
		new:  "\tif h.unlogged && c.cluster.Strategy.Sticky {\n",
		pkg:  ".", test: "TestGTIDUnloggedWrite",
	},
	simulated("read_your_writes", soon, guard{
		name: "until the position is known, the session reads from the primary",
		file: "internal/core/decide.go",
		old:  "\tcase need.Pending != nil:\n\t\treturn decidePending(",
		new:  "\tcase need.Pending != nil && in.PrimaryAll:\n\t\treturn decidePending(",
	}),
	{
		name: "a position that could not be read holds the session to the primary",
		file: "internal/core/session.go",
		old:  "\tcase r.Err != nil || r.Position.IsZero():\n\t\tc.doubt(now.Add(p.window))",
		new:  "\tcase r.Err != nil || r.Position.IsZero():",
		pkg:  "internal/core", test: "TestSessionVerdicts",
	},
	simulated("read_your_writes", soon, guard{
		name: "the position is where the primary inserts, not what it has written",
		file: "internal/postgres/engine.go",
		old:  "\trow, err := link.QueryRow(ctx, probeSQL)\n\tif err == nil {",
		new:  "\trow, err := link.QueryRow(ctx, strings.Replace(probeSQL, \"pg_current_wal_insert_lsn\", \"pg_current_wal_lsn\", 1))\n\tif err == nil {",
	}),
	simulated("read_your_writes", soon, guard{
		name: "a position is lowered to what is flushed only when all below it must be",
		file: "internal/core/sample.go",
		old:  "n.Sample.Began.Sub(capturedAt) >= n.Sample.FlushDelay+flushMargin &&",
		new:  "n.Sample.Began.After(capturedAt) &&",
	}),
	{
		name: "a position behind a page header is rounded down to where replicas stop",
		file: "internal/postgres/engine.go",
		old:  "\t\tlsn = lsn.RoundDown(block, segment)",
		new:  "\t\t_, _ = block, segment",
		pkg:  "internal/simulation", test: "TestAPageBoundaryIsReached",
	},
	{
		name: "a write of unknown outcome is covered only when its server session is gone",
		file: "internal/vconn/unknown.go",
		old:  "capture, ok := c.cluster.Router.Captures.JoinWhenGone(h.p.backend, h.p.proof.Start)",
		new:  "capture, ok := c.cluster.Router.Captures.Join(), true",
		pkg:  "internal/simulation", test: "TestAWriteThatArrivesAfterItsAnswerWasLost",
	},
	{
		name: "a write of unknown outcome counts",
		file: "internal/vconn/unknown.go",
		old:  "\th.discard = true\n\tif len(list) == 0 {\n\t\treturn\n\t}",
		new:  "\th.discard = true\n\tif len(list) >= 0 {\n\t\treturn\n\t}",
		pkg:  "internal/simulation", test: "TestAWriteThatArrivesAfterItsAnswerWasLost",
	},
	simulated("loss_is_reported", late, guard{
		name: "a capture that another server answered says nothing of the write",
		file: "internal/core/session.go",
		old:  "\tcase len(p.judge) == 0 && !p.anybody && p.writer != r.Start:",
		new:  "\tcase len(p.judge) == 0 && !p.anybody && p.writer != r.Start && p.own && p.plain():",
	}),
	{
		name: "what is left of a write whose server is gone holds its session also when its window is over",
		file: "internal/core/session.go",
		old:  "\t\tc.doubt(now.Add(p.window))\n\t\tc.require(r.need(), r.At, p.window, now)\n\t\treturn VerdictForeign",
		new:  "\t\tc.entry.Until = later(c.entry.Until, now.Add(p.window))\n\t\treturn VerdictForeign",
		pkg:  "internal/simulation", test: "TestAWriteOutlivesARestartOfThePrimary",
	},
	{
		name: "a doubt ends with what the primary has by then, and not with its window",
		file: "internal/core/session.go",
		old:  "later(c.entry.Until, until), true\n",
		new:  "later(c.entry.Until, until), c.unproven\n",
		pkg:  "internal/simulation", test: "TestADoubtEndsWithWhatThePrimaryHas",
	},
	{
		name: "what is left of a read whose server is gone does so as well",
		file: "internal/core/floor.go",
		old:  "\t\treturn c.add(pending{capture: primary, window: window, anybody: true}, now)",
		new:  "\t\treturn c",
		pkg:  "internal/core", test: "TestFloorThatIsGone",
	},
	simulated("read_your_writes", late, guard{
		name: "a capture is answered by a primary",
		file: "internal/monitor/captures.go",
		old:  "\tif err == nil && s.Role != core.RolePrimary {",
		new:  "\tif err == nil && s.Role == core.RoleUnknown {",
	}),
}
