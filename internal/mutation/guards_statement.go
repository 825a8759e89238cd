package main

// statementGuards see to it that statements run where they may, and once.
var statementGuards = []guard{
	simulated("runs_once", late, guard{
		name: "a write is never retried",
		file: "internal/vconn/execute.go",
		old:  "return c.decided.Role == core.RoleReplica && c.tx == nil && st.Class != sqlclass.Write && ctx.Err() == nil",
		new:  "return c.tx == nil && ctx.Err() == nil",
	}),
	{
		name: "a read is retried once",
		file: "internal/vconn/place.go",
		old:  "\t\tif c.failed >= replicaTries {",
		new:  "\t\tif c.failed >= 20 {",
		pkg:  "internal/vconn", test: "TestAReadTriesTwoReplicas",
	},
	simulated("read_your_writes", soon, guard{
		name: "the retry is held to the session's position",
		file: "internal/router/router.go",
		old:  "\tsession, err := r.apply(o, &in)\n",
		new: "\tsession, err := r.apply(o, &in)\n\tif req.Retry != core.RetryNone && err == nil && in.Level == core.LevelSession {\n" +
			"\t\tsession, in.Level = nil, core.LevelEventual\n\t}\n",
	}),
	simulated("one_reason", late, guard{
		name: "database/sql tries nothing again that was tried twice",
		file: "internal/vconn/held.go",
		old:  "\tif errors.Is(err, driver.ErrBadConn) {\n\t\treturn finalError{err}\n\t}\n\treturn err",
		new:  "\treturn err",
	}),
	{
		name: "a driver that says that nothing was sent is not believed when the connection has broken meanwhile",
		file: "internal/vconn/writes.go",
		old:  "return err != nil && c.nothingSent(err) && h.p.wire.Broken()",
		new:  "return err != nil && c.nothingSent(err) && h.p.wire.Broken() && c.misused != nil",
		pkg:  ".", test: "TestK3_01_NoWriteRunsTwice",
	},
	simulated("failed_is_gone", soon, guard{
		name: "a write whose answer is lost is not said to have failed",
		file: "internal/vconn/writes.go",
		old:  "\t\tc.unknown(c.writers(ctx), h)\n\t\treturn fmt.Errorf(\"%w: %w\", ErrCommitUnknown, err)",
		new:  "\t\tc.unknown(c.writers(ctx), h)\n\t\treturn err",
	}),
	simulated("failed_is_gone", late, guard{
		name: "a commit whose answer is lost is not said to have failed",
		file: "internal/vconn/writes.go",
		old:  "\t\tc.unknown(list, h)\n\t\treturn fmt.Errorf(\"%w: %w\", ErrCommitUnknown, err)",
		new:  "\t\tc.unknown(list, h)\n\t\treturn err",
	}),
	{
		name: "a replica's session refuses writes from its first moment",
		file: "internal/vconn/pool.go",
		old:  "\t\t\tconnector = ro.ReadOnly()\n",
		new:  "\t\t\t_ = ro\n",
		pkg:  "internal/simulation", test: "TestReadersRefuseWrites",
	},
	{
		name: "where the driver cannot open such a session, it is made one",
		file: "internal/vconn/pool.go",
		old:  "\tif !cfg.Writer && !readOnly && !cfg.Pooled {\n",
		new:  "\tif !cfg.Writer && !readOnly && !cfg.Pooled && ctx == nil {\n",
		pkg:  "internal/simulation", test: "TestReadersRefuseWrites",
	},
	{
		name: "a serializable read-only transaction begins on the primary, without a failure before",
		file: "internal/vconn/tx.go",
		old:  "opts.ReadOnly && sql.IsolationLevel(opts.Isolation) < sql.LevelSerializable {\n",
		new:  "opts.ReadOnly && sql.IsolationLevel(opts.Isolation) <= sql.LevelSerializable {\n",
		pkg:  ".", test: "TestReadOnlyTxSerializable",
	},
	{
		name: "a transaction that is to wait for a standby is told so again when it commits",
		file: "internal/vconn/tx.go",
		old:  "\tif c.applies && t.h == &c.primary && c.inTxOn(t.h) {\n",
		new:  "\tif c.applies && c.misused != nil {\n",
		pkg:  ".", test: "TestRemoteApplyHoldsTheCommit",
	},
	{
		name: "each write that is to wait for a standby asks whether there is one",
		file: "internal/vconn/remoteapply.go",
		old:  "\tcase wants && !(inTx && c.applies):\n",
		new:  "\tcase wants && !c.applies:\n",
		pkg:  ".", test: "TestRemoteApplyIsAskedForEachTime",
	},
	{
		name: "what is done on the native connection waits for a standby as well",
		file: "internal/vconn/conn.go",
		old:  "\terr = c.prepareWrite(ctx, &st, h)\n",
		new:  "\terr = nil\n",
		pkg:  ".", test: "TestRemoteApplyOfTheNativeConnection",
	},
	{
		name: "what need not wait for a standby does not",
		file: "internal/vconn/tx.go",
		old:  "\tif h == &c.primary && (c.applies || h.before != \"\") && !c.inTxOn(h) {\n",
		new:  "\tif h == &c.primary && c.misused != nil {\n",
		pkg:  ".", test: "TestRemoteApplyLeaksIntoNothing",
	},
	{
		name: "reads that fall back to the primary have a limit",
		file: "internal/router/fallback.go",
		old:  "\tif r.fallback == nil {\n",
		new:  "\tif r.fallback == nil || in.Budget >= 0 {\n",
		pkg:  "internal/router", test: "TestRouteProtectsThePrimary",
	},
	{
		name: "that a session has just written is no way around that limit",
		file: "internal/core/decide.go",
		old:  "\tcase eligible == 0:\n\t\treturn fallBack(in, s, why)\n\tcase need.Pending != nil:\n",
		new:  "\tcase eligible == 0 && need.Pending == nil:\n\t\treturn fallBack(in, s, why)\n\tcase eligible == 0:\n\t\treturn stay(in, s, why)\n\tcase need.Pending != nil:\n",
		pkg:  "internal/router", test: "TestRouteProtectsThePrimaryFromSessionsThatWrite",
	},
}
