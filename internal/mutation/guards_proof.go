package main

// proofGuards see to it that a sample speaks only for what it was taken from.
var proofGuards = []guard{
	simulated("read_your_writes", late, guard{
		name: "a sample proves nothing for another run of the server, or for one made anew",
		file: "internal/vconn/physical.go",
		old:  "if n.Shared || n.Sample.Start != p.proof.Start || d.Floor != nil",
		new:  "if n.Shared || d.Floor != nil",
	}),
	simulated("read_your_writes", late, guard{
		name: "a sample proves nothing for a connection that was opened after it",
		file: "internal/vconn/physical.go",
		old:  "\tif p.opened.Before(began) && s.Covers(replay",
		new:  "\tif !began.IsZero() && s.Covers(replay",
	}),
	simulated("read_your_writes", late, guard{
		name: "what a decision went by proves nothing for a connection that was opened after it",
		file: "internal/vconn/physical.go",
		old:  "s == d.Covering && n.Sample.Position.Timeline != 0 && p.opened.Before(n.Sample.Began)",
		new:  "s == d.Covering && n.Sample.Position.Timeline != 0",
	}),
	simulated("read_your_writes", soon, guard{
		name: "a connection that does not show what is needed does not serve the read",
		file: "internal/vconn/place.go",
		old:  "\terr := c.verify(ctx, h, d)\n",
		new:  "\terr := c.verify(ctx, h, d)\n\tif errors.Is(err, errNotProven) {\n\t\terr = nil\n\t}\n",
	}),
	simulated("monotonic_reads", late, guard{
		name: "what was read on a server counts there only while a connection has lived through it",
		file: "internal/core/floor.go",
		old:  "\tif moment(opened) < until {\n\t\treturn true\n\t}",
		new:  "\tif moment(opened) < until || !opened.IsZero() {\n\t\treturn true\n\t}",
	}),
	{
		name: "a standby that does not tell its timeline proves nothing until the primary was seen on it afterwards",
		file: "internal/monitor/measure.go",
		old:  " || !primary.Began.After(v.Sample.Ended) {",
		new:  " {",
		pkg:  "internal/monitor", test: "TestConfirmationNeedsALaterSample",
	},
	simulated("bounded_staleness", late, guard{
		name: "what a replica was proven to show ends with its run",
		file: "internal/monitor/measure.go",
		old:  "v.Rate, v.Delay, v.AsOf = 0, 0, time.Time{}",
		new:  "v.Rate, v.Delay = 0, 0",
	}),
}
