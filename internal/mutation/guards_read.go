package main

// readGuards see to it that a read shows what its level promises, in time.
var readGuards = []guard{
	simulated("global_order", soon, guard{
		name: "at LevelGlobal the primary's position is asked for anew",
		file: "internal/core/decide.go",
		old:  "case in.Level == LevelGlobal && !in.Asked:",
		new:  "case in.Level == LevelGlobal && !in.Asked && in.PrimaryAll:",
	}),
	simulated("bounded_staleness", soon, guard{
		name: "at LevelBounded a replica is proven recent enough",
		file: "internal/core/decide_level.go",
		old:  "!n.Shared && !n.Blind && !n.AsOf.Before(since) {",
		new:  "!n.Shared && !n.Blind && !since.IsZero() {",
	}),
	simulated("fence_holds", soon, guard{
		name: "after a fence the session needs what the primary had",
		file: "internal/core/floor.go",
		old:  "\t\treturn c.add(pending{capture: capture, window: window, fence: true}, now)\n",
		new:  "\t\treturn c\n",
	}),
	{
		name: "what was read at LevelCausal counts on the next server",
		file: "internal/core/decide_level.go",
		old:  "return len(in.Need.Floors) > 0 && (in.Level == LevelCausal || in.Level == LevelGlobal)",
		new:  "return len(in.Need.Floors) > 0 && in.PrimaryAll",
		pkg:  "internal/router", test: "TestLevelCausalMovesWhenItMust",
	},
	simulated("monotonic_reads", soon, guard{
		name: "what is read in a transaction, or with session state, counts for later reads",
		file: "internal/vconn/writes.go",
		old:  "\t\tremembered = c.tx != nil && c.tx.remembered || c.cluster.Router.Remembers(ctx)\n",
		new:  "\t\tremembered = c.misused != nil\n",
	}),
	{
		name: "the primary is waited for until it shows what replicas have shown",
		file: "internal/router/router.go",
		old:  "\t\t\t\tr.catchUp(ctx, session)\n",
		new:  "\t\t\t\t_ = r.catchUp\n",
		pkg:  "internal/simulation", test: "TestThePrimaryCatchesUpWithWhatWasRead",
	},
	{
		name: "so it is before a transaction, and before what needs session state, reads there",
		file: "internal/router/level.go",
		old:  "\tif session.ViewTo(r.cfg.Cluster, now, &need); !need.AheadOf() {\n",
		new:  "\tif session.ViewTo(r.cfg.Cluster, now, &need); !need.AheadOf() || session != nil {\n",
		pkg:  "internal/simulation", test: "TestThePrimaryCatchesUpWithWhatWasRead",
	},
	simulated("read_your_writes", soon, guard{
		name: "a read-only transaction on a replica begins only where the position is",
		file: "internal/vconn/tx.go",
		old:  "\t\tst.Class = sqlclass.Read\n",
		new:  "\t\tst.Class = sqlclass.Read\n\t\tctx = core.NewContext(ctx, &core.Options{Level: core.LevelEventual})\n",
	}),
	{
		name: "a replica that was beyond MaxLag comes back well below it",
		file: "internal/monitor/measure.go",
		old:  "return v.Lag > limit || v.Late && v.Lag > limit-limit/10",
		new:  "return v.Lag > limit",
		pkg:  "internal/monitor", test: "TestLagThatHovers",
	},
	{
		name: "a replica that nothing feeds serves nothing, however small its lag looks",
		file: "internal/monitor/node.go",
		old:  "return n.sourceless > 2 && v.Sample.Began.Sub(n.lostSource) >= n.m.cfg.Interval",
		new:  "return false",
		pkg:  "internal/monitor", test: "TestStoppedReplica",
	},
	{
		name: "reads under way on a node that falls silent are ended, and run elsewhere",
		file: "internal/vconn/pool.go",
		old:  "\t\tif c.busy.CompareAndSwap(busyAsking, busyInterrupted) {",
		new:  "\t\tif p.closed.Load() && c.busy.CompareAndSwap(busyAsking, busyInterrupted) {",
		pkg:  "internal/vconn", test: "TestQueueAtASilentReplica",
	},
	{
		name: "no wait is longer than its budget, however many nodes are tried",
		file: "internal/router/router.go",
		old:  "\t\tin.Budget = max(0, in.Budget-req.Waited)\n",
		new:  "",
		pkg:  "internal/router", test: "TestRouteBudgetIsOneForAllTries",
	},
}
