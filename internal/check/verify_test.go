package check_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/check"
)

// history is put together by hand: each operation takes a unit of time and begins when the one before has ended.
type history struct{ check.History }

func (h *history) add(o check.Op) *check.Op {
	o.ID = len(h.Ops)
	if o.Begin == 0 && o.End == 0 {
		o.Begin = time.Duration(10 * (o.ID + 1))
		o.End = o.Begin + 5
	}
	if o.Asked == 0 {
		o.Asked = o.Begin
	}
	if o.Outcome == check.Pending {
		o.Outcome = check.OK
	}
	h.Ops = append(h.Ops, o)
	return &h.Ops[o.ID]
}

func (h *history) write(session, key, version int) *check.Op {
	return h.add(check.Op{Session: session, Kind: check.Write, Key: key, Version: version})
}

func (h *history) read(session int, level check.Level, key int, saw ...int) *check.Op {
	return h.add(check.Op{Session: session, Kind: check.Read, Level: level, Key: key, Saw: saw})
}

var (
	onReplica = []check.Route{{Node: "b", Replica: true, Reason: "covered"}}
	onPrimary = []check.Route{{Node: "a", Reason: "write"}}
)

// broken are histories that break one promise each; where a case has a cure, the same history with it breaks none.
var broken = map[string]struct {
	rule check.Rule
	make func(h *history)
	cure func(h *history)
}{
	"own write not seen": {check.ReadYourWrites, func(h *history) {
		h.write(1, 7, 1)
		h.read(1, check.Session, 7)
	}, func(h *history) { h.Ops[1].Level = check.Eventual }},
	"own write not seen on the primary": {check.ReadYourWrites, func(h *history) {
		h.write(1, 7, 1)
		h.read(1, check.Primary, 7)
	}, func(h *history) { h.Ops[1].Session = 2 }},
	"own write not seen after another was": {check.ReadYourWrites, func(h *history) {
		h.write(1, 7, 1)
		h.write(1, 7, 2)
		h.read(1, check.Session, 7, 2)
	}, func(h *history) { h.Ops[2].Saw = []int{2, 1} }},
	"a write that ends when the read asks need not be seen": {check.ReadYourWrites, func(h *history) {
		h.write(1, 7, 1)
		h.read(1, check.Session, 7).Asked = 16
	}, func(h *history) { h.Ops[1].Asked = 15 }},
	"a read-only transaction that began before": {check.ReadYourWrites, func(h *history) {
		h.write(1, 7, 1)
		h.read(1, check.Session, 7)
	}, func(h *history) { h.Ops[1].Asked = 12 }},
	"token": {check.ReadYourWrites, func(h *history) {
		h.write(1, 7, 1)
		h.add(check.Op{Session: 1, Kind: check.Token})
		h.add(check.Op{Session: 2, Kind: check.Merge, From: 1})
		h.read(2, check.Session, 7)
	}, func(h *history) { h.Ops[3].Session = 3 }},
	"token of before the write": {check.ReadYourWrites, func(h *history) {
		h.write(1, 7, 1)
		h.add(check.Op{Session: 1, Kind: check.Token})
		h.write(1, 7, 2)
		h.add(check.Op{Session: 2, Kind: check.Merge, From: 1})
		h.read(2, check.Session, 7, 2)
	}, func(h *history) { h.Ops[4].Saw = []int{1} }},
	"unknown outcome that stands": {check.ReadYourWrites, func(h *history) {
		h.write(1, 7, 1).Outcome = check.Unknown
		h.Commits = []check.Commit{{Version: 1, At: 18}}
		h.read(1, check.Session, 7)
	}, func(h *history) { h.Commits[0].At = 21 }},
	"unknown outcome that somebody has seen": {check.ReadYourWrites, func(h *history) {
		h.write(1, 7, 1).Outcome = check.Unknown
		h.read(2, check.Eventual, 7, 1)
		h.read(1, check.Session, 7)
	}, func(h *history) { h.Ops[1].Saw = nil }},
	"lost, but not yet": {check.ReadYourWrites, func(h *history) {
		h.write(1, 7, 1)
		h.read(1, check.Session, 7)
		h.Losses = []check.Loss{{Version: 1, At: 26}}
	}, func(h *history) { h.Losses[0].At = 25 }},
	"lost, and nobody says so": {check.LossIsReported, func(h *history) {
		h.write(1, 7, 1)
		h.Losses = []check.Loss{{Version: 1, At: 17}}
		h.Reports = []time.Duration{16}
		h.read(1, check.Session, 7).Routes = onReplica
	}, func(h *history) { h.Reports = []time.Duration{16, 25} }},
	"lost, and it is said after the read": {check.LossIsReported, func(h *history) {
		h.write(1, 7, 1)
		h.Losses = []check.Loss{{Version: 1, At: 17}}
		h.Reports = []time.Duration{26}
		h.read(1, check.Session, 7).Routes = onReplica
	}, func(h *history) { h.Losses[0].Silent = true }},
	"lost, and it is said to another session": {check.LossIsReported, func(h *history) {
		h.write(1, 7, 1)
		h.Losses = []check.Loss{{Version: 1, At: 17}}
		h.Reports = []time.Duration{25}
		h.read(2, check.Session, 7)
		h.read(1, check.Session, 7).Routes = onReplica
	}, func(h *history) { h.Reports = []time.Duration{35} }},
	"read and not read again": {check.MonotonicReads, func(h *history) {
		h.write(1, 7, 1)
		h.read(2, check.Causal, 7, 1)
		h.read(2, check.Causal, 7)
	}, func(h *history) { h.Ops[1].Level = check.Session }},
	"read at the global level": {check.MonotonicReads, func(h *history) {
		h.write(1, 7, 1)
		h.Ops[0].End = 100
		h.read(2, check.Global, 7, 1)
		h.read(2, check.Causal, 7)
	}, func(h *history) { h.Ahead = []time.Duration{31} }},
	"read ahead on the primary, said of another read": {check.MonotonicReads, func(h *history) {
		h.write(1, 7, 1)
		h.read(2, check.Causal, 7, 1)
		h.read(2, check.Causal, 7)
		h.Ahead = []time.Duration{29}
	}, func(h *history) { h.Ahead = []time.Duration{30} }},
	"read by a session whose token was taken": {check.MonotonicReads, func(h *history) {
		h.write(1, 7, 1)
		h.read(2, check.Causal, 7, 1)
		h.add(check.Op{Session: 2, Kind: check.Token})
		h.add(check.Op{Session: 3, Kind: check.Merge, From: 2})
		h.read(3, check.Causal, 7)
	}, func(h *history) { h.Ops[4].Level = check.Session }},
	"answer without the question": {check.WritesFollowReads, func(h *history) {
		h.write(1, 7, 1)
		h.read(2, check.Causal, 7, 1)
		h.write(2, 8, 2)
		h.read(3, check.Causal, 8, 2)
		h.read(3, check.Causal, 7)
	}, func(h *history) { h.Ops[4].Level = check.Session }},
	"answer to an answer": {check.WritesFollowReads, func(h *history) {
		h.write(1, 7, 1)
		h.read(2, check.Causal, 7, 1)
		h.write(2, 8, 2)
		h.read(3, check.Causal, 8, 2)
		h.write(3, 9, 3)
		h.read(4, check.Causal, 9, 3)
		h.read(4, check.Causal, 7)
	}, func(h *history) { h.Ops[6].Saw = []int{1} }},
	"the second write without the first": {check.MonotonicWrites, func(h *history) {
		h.write(1, 7, 1)
		h.write(1, 8, 2)
		h.read(2, check.Causal, 8, 2)
		h.read(2, check.Causal, 7)
	}, func(h *history) { h.Ops[3].Saw = []int{1} }},
	"the second write without the first, of one key": {check.MonotonicWrites, func(h *history) {
		h.write(1, 7, 1)
		h.write(1, 7, 2)
		h.read(2, check.Causal, 7, 2)
	}, func(h *history) { h.Ops[2].Saw = []int{1, 2} }},
	"older than the bound": {check.BoundedStaleness, func(h *history) {
		h.write(1, 7, 1)
		o := h.read(0, check.Bounded, 7)
		o.Within = 4
	}, func(h *history) { h.Ops[1].Within = 5 }},
	"acknowledged before": {check.GlobalOrder, func(h *history) {
		h.write(1, 7, 1)
		h.read(0, check.Global, 7)
	}, func(h *history) { h.Ops[1].Asked = 15 }},
	"acknowledged before a split": {check.GlobalOrder, func(h *history) {
		h.write(1, 7, 1)
		h.read(0, check.Global, 7)
		h.Split = []check.Span{{From: 26, To: 30}}
	}, func(h *history) { h.Split[0].From = 25 }},
	"fence": {check.FenceHolds, func(h *history) {
		h.write(1, 7, 1)
		h.add(check.Op{Session: 2, Kind: check.Fence})
		h.read(2, check.Session, 7)
	}, func(h *history) { h.Ops[1].Outcome = check.Failed }},
	"fence during a split": {check.FenceHolds, func(h *history) {
		h.write(1, 7, 1)
		h.add(check.Op{Session: 2, Kind: check.Fence})
		h.read(2, check.Session, 7)
		h.Split = []check.Span{{From: 0, To: 19}}
	}, func(h *history) { h.Split[0].To = 20 }},
	"failed and seen": {check.FailedIsGone, func(h *history) {
		h.write(1, 7, 1).Outcome = check.Failed
		h.read(2, check.Eventual, 7, 1)
	}, func(h *history) { h.Ops[0].Outcome = check.Unknown }},
	"failed and there": {check.FailedIsGone, func(h *history) {
		h.write(1, 7, 1).Outcome = check.Failed
		h.Commits = []check.Commit{{Version: 1, At: 12}}
	}, func(h *history) { h.Commits = nil }},
	"written by nobody": {check.NothingInvented, func(h *history) {
		h.read(1, check.Eventual, 7, 1)
	}, func(h *history) { h.Ops[0].Outcome = check.Failed }},
	"written to another key": {check.NothingInvented, func(h *history) {
		h.write(1, 8, 1)
		h.read(2, check.Eventual, 7, 1)
	}, func(h *history) { h.Ops[1].Key = 8 }},
	"read before it was written": {check.NothingInvented, func(h *history) {
		h.read(1, check.Eventual, 7, 1)
		h.write(2, 7, 1)
	}, func(h *history) { h.Ops[1].Begin = 12 }},
	"seen twice": {check.RunsOnce, func(h *history) {
		h.write(1, 7, 1)
		h.read(2, check.Eventual, 7, 1, 1)
	}, func(h *history) { h.Ops[1].Saw = []int{1} }},
	"written twice": {check.RunsOnce, func(h *history) {
		h.write(1, 7, 1)
		h.Runs = []check.Run{{Op: 0, Node: "a", Primary: true, Wrote: true}, {Op: 0, Node: "b", Primary: true, Wrote: true}}
	}, func(h *history) { h.Runs = h.Runs[:1] }},
	"read twice on a primary": {check.RunsOnce, func(h *history) {
		h.read(1, check.Eventual, 7)
		h.Runs = []check.Run{{Op: 0, Node: "b"}, {Op: 0, Node: "a", Primary: true}, {Op: 0, Node: "a", Primary: true}}
	}, func(h *history) { h.Runs[2].Primary = false }},
	"run by a replica": {check.WriteOnReplica, func(h *history) {
		h.write(1, 7, 1)
		h.Runs = []check.Run{{Op: 0, Node: "b", Wrote: true}}
	}, func(h *history) { h.Runs[0].Wrote = false }},
	"sent to a replica": {check.WriteOnReplica, func(h *history) {
		h.write(1, 7, 1).Routes = onReplica
	}, func(h *history) { h.Ops[0].Routes = onPrimary }},
	"too late": {check.InTime, func(h *history) {
		h.write(1, 7, 1).Limit = 4
	}, func(h *history) { h.Ops[0].Limit = 5 }},
	"no reason": {check.OneReason, func(h *history) {
		h.write(1, 7, 1).Statements = 1
	}, func(h *history) { h.Ops[0].Routes = onPrimary }},
	"two reasons": {check.OneReason, func(h *history) {
		o := h.write(1, 7, 1)
		o.Statements, o.Routes = 1, []check.Route{onPrimary[0], onPrimary[0]}
	}, func(h *history) { h.Ops[0].Statements = 2 }},
	"two reasons of a statement that failed": {check.OneReason, func(h *history) {
		o := h.write(1, 7, 1)
		o.Statements, o.Outcome, o.Routes = 1, check.Failed, []check.Route{onPrimary[0], onPrimary[0]}
	}, func(h *history) { h.Ops[0].Routes = nil }},
	"a reason that is none": {check.OneReason, func(h *history) {
		h.write(1, 7, 1).Routes = []check.Route{{Node: "a", Reason: "none"}}
	}, func(h *history) { h.Ops[0].Routes = onPrimary }},
	"no outcome": {check.WellFormed, func(h *history) {
		h.write(1, 7, 1)
		h.Ops[0].Outcome = check.Pending
	}, nil},
	"ends before it begins": {check.WellFormed, func(h *history) { h.write(1, 7, 1).End = 3 }, nil},
	"one version twice": {check.WellFormed, func(h *history) {
		h.write(1, 7, 1)
		h.write(1, 8, 1)
	}, nil},
	"a token that is none": {check.WellFormed, func(h *history) {
		h.write(1, 7, 1)
		h.add(check.Op{Session: 2, Kind: check.Merge, From: 0})
	}, nil},
	"a token of later": {check.WellFormed, func(h *history) {
		h.add(check.Op{Session: 2, Kind: check.Merge, From: 1})
		h.add(check.Op{Session: 1, Kind: check.Token})
	}, nil},
	"stands and was not written": {check.WellFormed, func(h *history) { h.Commits = []check.Commit{{Version: 4}} }, nil},
	"another name":               {check.WellFormed, func(h *history) { h.write(1, 7, 1).ID = 4 }, nil},
}

func TestEveryRuleIsFound(t *testing.T) {
	rules := map[check.Rule]bool{}
	for name, c := range broken {
		rules[c.rule] = true
		t.Run(name, func(t *testing.T) {
			h := &history{}
			c.make(h)
			found := h.Verify()
			require.NotEmpty(t, found)
			for _, v := range found {
				require.Equal(t, c.rule, v.Rule, "%s", h.Describe(v))
			}
			require.NotEmpty(t, h.Describe(found[0]))
			if c.cure != nil {
				c.cure(h)
				require.Empty(t, h.Verify())
			}
		})
	}
	for r := check.Rule(0); r.String() != "invalid"; r++ {
		require.True(t, rules[r], "no history breaks %s", r)
	}
}

// TestEmptyHistory: nothing has happened, and nothing was broken.
func TestEmptyHistory(t *testing.T) { require.Empty(t, (&check.History{}).Verify()) }

// mutations turn a good history into one that breaks a promise. They report whether they could.
var mutations = map[string]func(m *model, pick func(n int) int) (check.Rule, bool){
	"leave out": func(m *model, pick func(int) int) (check.Rule, bool) {
		for i := range m.h.Ops {
			o := &m.h.Ops[(i+pick(len(m.h.Ops)))%len(m.h.Ops)]
			if must := m.must[o.ID]; len(must) > 0 {
				v := must[pick(len(must))]
				o.Saw = slices.DeleteFunc(o.Saw, func(s int) bool { return s == v })
				return anyRule, !lostBy(&m.h, v, o.End)
			}
		}
		return 0, false
	},
	"invent": func(m *model, pick func(int) int) (check.Rule, bool) {
		o := find(m, pick, func(o *check.Op) bool { return o.Kind == check.Read })
		if o == nil {
			return 0, false
		}
		o.Saw = append(o.Saw, m.next+1)
		return check.NothingInvented, true
	},
	"twice": func(m *model, pick func(int) int) (check.Rule, bool) {
		o := find(m, pick, func(o *check.Op) bool { return len(o.Saw) > 0 })
		if o == nil {
			return 0, false
		}
		o.Saw = append(o.Saw, o.Saw[0])
		return check.RunsOnce, true
	},
	"fail": func(m *model, pick func(int) int) (check.Rule, bool) {
		o := find(m, pick, func(o *check.Op) bool { return o.Kind == check.Write && o.Outcome == check.OK })
		if o == nil {
			return 0, false
		}
		o.Outcome = check.Failed
		return check.FailedIsGone, true
	},
	"late": func(m *model, pick func(int) int) (check.Rule, bool) {
		o := &m.h.Ops[pick(len(m.h.Ops))]
		if o.End == o.Begin {
			return 0, false
		}
		o.Limit = o.End - o.Begin - 1
		return check.InTime, o.Limit > 0
	},
	"again": func(m *model, pick func(int) int) (check.Rule, bool) {
		if len(m.h.Runs) == 0 {
			return 0, false
		}
		m.h.Runs = append(m.h.Runs, m.h.Runs[pick(len(m.h.Runs))])
		return check.RunsOnce, true
	},
	"astray": func(m *model, pick func(int) int) (check.Rule, bool) {
		o := find(m, pick, func(o *check.Op) bool { return o.Kind == check.Write })
		if o == nil {
			return 0, false
		}
		o.Routes = onReplica
		return check.WriteOnReplica, true
	},
	"silent": func(m *model, pick func(int) int) (check.Rule, bool) {
		o := find(m, pick, func(o *check.Op) bool { return o.Statements == 1 })
		if o == nil {
			return 0, false
		}
		o.Routes = nil
		if o.Outcome == check.Failed {
			return 0, false
		}
		return check.OneReason, o.Outcome == check.OK
	},
}

// anyRule is for a mutation of which it depends what it breaks.
const anyRule = check.Rule(255)

func find(m *model, pick func(int) int, is func(*check.Op) bool) *check.Op {
	from := pick(len(m.h.Ops))
	for i := range m.h.Ops {
		if o := &m.h.Ops[(i+from)%len(m.h.Ops)]; is(o) {
			return o
		}
	}
	return nil
}

// lostBy reports whether a version was lost before a read was over, so that it need not be seen.
func lostBy(h *check.History, version int, end time.Duration) bool {
	return slices.ContainsFunc(h.Losses, func(l check.Loss) bool { return l.Version == version && l.At <= end })
}

// FuzzVerify: of a history that was made to break nothing, nothing is found; of the same with one thing changed for the worse,
// that is.
func FuzzVerify(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, uint16(80))
	}
	f.Fuzz(func(t *testing.T, seed uint64, ops uint16) {
		size := 1 + int(ops)%400
		m := newHistory(seed, size)
		for _, v := range m.h.Verify() {
			t.Fatal(m.h.Describe(v))
		}
		for name, mutate := range mutations {
			m := newHistory(seed, size)
			rule, changed := mutate(m, m.rng.IntN)
			if !changed {
				continue
			}
			found := m.h.Verify()
			require.True(t, slices.ContainsFunc(found, func(v check.Violation) bool { return rule == anyRule || v.Rule == rule }),
				"%s: %s is not among %v", name, rule, found)
		}
	})
}

// BenchmarkVerify is what a million operations cost to judge, a thousand times less.
func BenchmarkVerify(b *testing.B) {
	m := newHistory(1, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if found := m.h.Verify(); len(found) > 0 {
			b.Fatal(found)
		}
	}
}

// TestDescribe: whoever looks into a violation sees who wrote what was missed, and what became of it.
func TestDescribe(t *testing.T) {
	h := &history{}
	h.write(1, 7, 1)
	h.read(1, check.Session, 7).Routes = onReplica
	h.Ops[1].Err = "none"
	h.Losses = []check.Loss{{Version: 1, At: 100}}
	h.Commits = []check.Commit{{Version: 1, At: 12}}
	found := h.Verify()
	require.Len(t, found, 1)
	text := h.Describe(found[0])
	for _, part := range []string{"read_your_writes", "#1 session 1", "[b replica covered]", "write 1 to key 7", "lost at 100ns", "stood from 12ns", "(none)"} {
		require.Contains(t, text, part)
	}
	require.Equal(t, "well_formed: x", fmt.Sprint(check.Violation{Op: -1, Text: "x"}))
}
