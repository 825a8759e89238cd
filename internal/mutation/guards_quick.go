package main

// quickGuards see to it that the short way of a statement goes by what the long one would find out.
var quickGuards = []guard{
	{
		name: "where a read may go is found out anew by another snapshot",
		file: "internal/core/settled.go",
		old:  "\tif word>>settledBits != number {",
		new:  "\tif word>>settledBits > number {",
		pkg:  "internal/router", test: "TestQuickEndsWithWhatItRestsOn",
	},
	{
		name: "where a read may go is kept with the state of its session",
		file: "internal/core/settled.go",
		old:  "\tif n.state != nil {\n\t\tclean = &n.state.settled\n\t}\n",
		new:  "\tif n.state != nil && false {\n\t\tclean = &n.state.settled\n\t}\n",
		pkg:  "internal/router", test: "TestQuickEndsWithWhatItRestsOn",
	},
	{
		name: "an answer at hand ends with the one in the cache",
		file: "internal/sqlclass/recent.go",
		old:  "a.marks.Load() == markUsed {",
		new:  "a.marks.Load()&markUsed != 0 {",
		pkg:  "internal/sqlclass", test: "TestRecentEndsWithTheCache",
	},
	{
		name: "the short way takes arguments as they were given",
		file: "internal/vconn/quick.go",
		old:  "if g.bound = args; !p.rebinds {",
		new:  "if g.bound = args; !p.rebinds && p.able == nil {",
		pkg:  ".", test: "TestShortWayEndsLikeTheLongOne",
	},
	{
		name: "what the short way goes by proves nothing for a connection that was opened after it",
		file: "internal/vconn/longway.go",
		old:  "n.Sample.Position.Timeline != 0 && p.opened.Before(n.Sample.Began)",
		new:  "n.Sample.Position.Timeline != 0",
		pkg:  "internal/vconn", test: "TestSpeaksFor",
	},
	{
		name: "a connection to a primary is held to what is known by the newest snapshot",
		file: "internal/vconn/quick.go",
		old:  "\tif p.accepted != c.router.Monitor.Number() && c.accept(h) != nil {",
		new:  "\tif p.accepted == 0 && c.accept(h) != nil {",
		pkg:  "internal/vconn", test: "TestQuickWriteOfAFormerPrimary",
	},
	{
		name: "a statement that is prepared has begun to run on its connection",
		file: "internal/vconn/quickstmt.go",
		old:  "\th.ran, c.single, c.stage = true, s, stagePrepared\n",
		new:  "\th.ran, c.single, c.stage = false, s, stagePrepared\n",
		pkg:  ".", test: "TestShortWayEndsLikeTheLongOne",
	},
	{
		name: "a statement that was prepared for one run is run the short way in its own checkout only",
		file: "internal/vconn/quickstmt.go",
		old:  "\treturn c.single == s && c.stage == stagePrepared && h.attached()\n",
		new:  "\treturn c.stage == stagePrepared && h.attached()\n",
		pkg:  "internal/vconn", test: "TestStatementForOneRunIsKept",
	},
	{
		name: "captures come often for whoever looks at them",
		file: "internal/monitor/captures.go",
		old:  "\t\tif c.seen.Load() || unknowns > 0 {",
		new:  "\t\tif unknowns > 0 {",
		pkg:  "internal/monitor", test: "TestCaptureRate",
	},
	{
		name: "a connection that has not been read on just now is looked at before it is used",
		file: "internal/vconn/quick.go",
		old:  "\treturn p.looks && time.Since(p.pool.began)-p.left < shortRest\n",
		new:  "\treturn p.looks\n",
		pkg:  "internal/vconn", test: "TestWhatWasReadOnJustNowIsNotLookedAt",
	},
	{
		name: "a connection to write on is looked at before each use",
		file: "internal/vconn/physical.go",
		old:  "p.looks = !pool.writer && isOf",
		new:  "p.looks = isOf",
		pkg:  ".", test: "TestWhatIsReadOnIsNotLookedAt",
	},
}
