package main

// failoverGuards see to it that the primary is the primary.
var failoverGuards = []guard{
	simulated("read_your_writes", soon, guard{
		name: "a connection for writes leads to a primary when it is opened",
		file: "internal/vconn/pool.go",
		old:  "\tif c.proof.Role != core.RolePrimary {\n",
		new:  "\tif c.proof.Role == core.RoleUnknown {\n",
	}),
	{
		name: "a connection for writes, and a position read, are of the primary that is known there",
		file: "internal/core/sample.go",
		old:  "\t\treturn o.Position.Timeline >= s.Timeline\n",
		new:  "\t\treturn true\n",
		pkg:  "internal/monitor", test: "TestPrimaryRestoredInPlace",
	},
	simulated("read_your_writes", late, guard{
		name: "the primary of before a failover is not elected again",
		file: "internal/monitor/elect.go",
		old:  "\t\tcase m.formerLocked(i):\n",
		new:  "\t\tcase m.formerLocked(i) && m.closed:\n",
	}),
	{
		name: "of before a failover is also who has what a primary wrote before it was a replica for a while",
		file: "internal/monitor/elect.go",
		old:  ", r.replicas[n.server.System].After(n.at):",
		new:  ", r.replicas[n.server.System].After(n.at) && r.next.wrote && r.since.IsZero():",
		pkg:  "internal/monitor", test: "TestFormerPrimaryWithGTIDsOfTheReignThatCounts",
	},
	{
		name: "what a primary has taken that nobody has seen is not given up for the primary before it",
		file: "internal/monitor/elect.go",
		old:  "was && !r.next.wrote && m.awaited.Load() > 0 &&",
		new:  "was && !r.next.wrote && m.closed &&",
		pkg:  "internal/monitor", test: "TestFormerPrimaryWithGTIDsWhenNobodySawTheNextWrite",
	},
	{
		name: "a connection that leads to the primary of before is given up, also when that has been seen under the name",
		file: "internal/core/sample.go",
		old:  " && !s.Nodes[node].Former //",
		new:  " //",
		pkg:  "internal/monitor", test: "TestFormerPrimaryWithGTIDsUnderTheNameOfThePrimary",
	},
	{
		name: "of two primaries the one on the higher timeline counts",
		file: "internal/monitor/elect.go",
		old:  "case best < 0, v.Sample.Position.Timeline > m.views[best].Sample.Position.Timeline:",
		new:  "case best < 0:",
		pkg:  "internal/monitor", test: "TestTwoPrimaries",
	},
	{
		name: "of two servers the one that is the primary stays it, whoever else answers under its name",
		file: "internal/monitor/elect.go",
		old:  "\t\tcase v.Sample.Start == m.views[best].Sample.Start:\n",
		new:  "\t\tcase v.Sample.Start == m.views[best].Sample.Start || v.Shared || m.views[best].Shared:\n",
		pkg:  "internal/monitor", test: "TestTwoPrimariesOfWhichOneSharesItsName",
	},
	{
		name: "a writable replica is not the primary when its own is gone",
		file: "internal/monitor/claim.go",
		old:  "c.follower, counts = true, false",
		new:  "c.follower = false",
		pkg:  "internal/monitor", test: "TestClaim",
	},
	{
		name: "a server of another system is never the primary",
		file: "internal/monitor/elect.go",
		old:  "case system != 0 && p.System != system && p.System != meant && i != m.primary:",
		new:  "case system != 0 && p.System != system && p.System != meant && i != m.primary && m.closed:",
		pkg:  "internal/monitor", test: "TestServersOfAnotherSystemBeforeAnyPrimary",
	},
	{
		name: "a replica of another system serves nothing",
		file: "internal/core/decide.go",
		old:  "&& !n.Stopped && !n.Foreign &&",
		new:  "&& !n.Stopped &&",
		pkg:  "internal/core", test: "TestDecideForeign",
	},
	{
		name: "a write in a transaction that is refused as a replica would has the node asked at once",
		file: "internal/vconn/writes.go",
		old:  "\tif err != nil && c.cluster.Engine.ReadOnly(err) && h.attached() {\n",
		new:  "\tif err != nil && c.cluster.Engine.ReadOnly(err) && h.attached() && c.tx == nil {\n",
		pkg:  ".", test: "TestReadOnlyRefusalInATransactionAsksAtOnce",
	},
	{
		name: "what a node said before it was seen to fail does not make it healthy",
		file: "internal/monitor/monitor.go",
		old:  " && !s.Began.Before(m.nodes[i].failed) {",
		new:  " {",
		pkg:  "internal/monitor", test: "TestAnswerOfBeforeAFailure",
	},
}
