package core_test

import (
	"flag"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/readroute/readroute/internal/core"
)

var update = flag.Bool("update", false, "write what Decide says into the fixtures")

// fixtureNow is the moment of every fixture; times in them are relative to it.
var fixtureNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestDecideFixtures reads testdata/decide/*.txt. A file is made of lines:
//
//	nodes                      a new snapshot begins, with its primary up
//	NAME ROLE WORD...          a node of it; the first one is the primary unless another says "elected"
//	primary down               its primary does not answer
//	? WORD...                  a statement; a read of a session within 30 s of lag, with 100 ms to wait, unless it says otherwise
//	= ACTION NODES REASON ...  what Decide says of it
//
// and of comments (#). Positions are [[system:]timeline:]lsn, of system 7 and timeline 1 unless they say otherwise.
func TestDecideFixtures(t *testing.T) {
	files, err := filepath.Glob("testdata/decide/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	reasons, actions := map[core.Reason]bool{}, map[core.Action]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			f := fixture{TB: t, reasons: reasons, actions: actions}
			lines := strings.Split(string(text), "\n")
			for i := range lines {
				f.where = fmt.Sprintf("%s:%d: %s", file, i+1, lines[i])
				lines[i] = f.line(lines[i])
			}
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644))
			}
		})
	}
	for r := range core.NumReasons {
		reason := core.Reason(r)
		waiting := reason == core.ReasonNone || reason == core.ReasonProtected || reason == core.ReasonPositionLost
		require.Equal(t, !waiting, reasons[reason], "fixtures and reason %s", reason)
	}
	for a := core.GoPrimary; a <= core.Refuse; a++ {
		require.True(t, actions[a], "no fixture has action %d", a)
	}
}

type fixture struct {
	testing.TB
	where    string
	snapshot core.Snapshot
	names    []string
	input    *core.Input // waits for its answer
	reasons  map[core.Reason]bool
	actions  map[core.Action]bool
}

func (f *fixture) line(line string) string {
	words := strings.Fields(line)
	switch {
	case len(words) == 0 || strings.HasPrefix(words[0], "#"):
	case words[0] == "nodes":
		f.snapshot, f.names = core.Snapshot{PrimaryUp: true}, nil
	case line == "primary down":
		f.snapshot.PrimaryUp = false
	case words[0] == "?":
		f.input = f.statement(words[1:])
	case words[0] == "=":
		require.NotNil(f, f.input, f.where)
		d := core.Decide(f.input, &f.snapshot)
		got := f.render(d)
		f.reasons[d.Reason], f.actions[d.Action], f.input = true, true, nil
		if *update {
			return got
		}
		require.Equal(f, strings.Join(words, " "), got, f.where)
	default:
		f.node(words)
	}
	return line
}

func (f *fixture) node(words []string) {
	n := core.NodeView{Name: words[0], Healthy: true, Weight: 1, LagKnown: true}
	n.Sample.Began = fixtureNow
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "primary":
			n.Role = core.RolePrimary
		case "replica":
			n.Role = core.RoleReplica
		case "unseen":
			n = core.NodeView{Name: n.Name}
		case "elected":
			f.snapshot.Primary = len(f.names)
		case "sick":
			n.Healthy = false
		case "stopped":
			n.Stopped = true
		case "at":
			n.Sample.Position = f.position(value)
			n.Sample.Reported, n.Sample.Flush = n.Sample.Position.LSN, n.Sample.Position.LSN
		case "reported":
			n.Sample.Reported = f.position(value).LSN
		case "flush":
			n.Sample.Flush = f.position(value).LSN
		case "flushdelay":
			n.Sample.FlushDelay = f.duration(value)
		case "began":
			n.Sample.Began = fixtureNow.Add(f.duration(value))
		case "confirmed":
			n.Confirmed = f.position(value)
			n.ConfirmedTimeline, n.Confirmed.Timeline = n.Confirmed.Timeline, 0
		case "lag":
			n.Lag, n.LagKnown = f.duration(value), true
		case "asof":
			n.AsOf = fixtureNow.Add(f.duration(value))
		case "shared":
			n.Shared = true
		case "nolag":
			n.Lag, n.LagKnown = 0, false
		case "zone":
			n.Zone = int(f.number(value))
		case "behind":
			n.Behind = f.duration(value)
		case "delay":
			n.Delay = f.duration(value)
		case "rate":
			n.Rate = float64(f.number(value))
		default:
			require.Fail(f, "unknown word "+w, f.where)
		}
	}
	n.Sample.Role = n.Role
	f.snapshot.Nodes, f.names = append(f.snapshot.Nodes, n), append(f.names, n.Name)
}

func (f *fixture) statement(words []string) *core.Input {
	in := &core.Input{
		Class: core.ClassRead, Level: core.LevelSession, HasSession: true, MaxLag: 30 * time.Second, Node: core.AnyNode,
		Replica: core.AnyNode, Budget: 100 * time.Millisecond, Now: fixtureNow,
		Strategy: core.Strategy{Wait: 100 * time.Millisecond, Window: 15 * time.Second},
	}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "class":
			in.Class = core.Class(f.choice(value, "unknown", "read", "write", "session_state", "tx_control"))
		case "hint":
			in.Hint = core.Hint(f.choice(value, "", "primary", "replica"))
		case "held":
			in.Held = core.Held(f.choice(value, "", "tx", "state", "primary"))
		case "level":
			in.Level = -core.Level(f.choice(value, "unset", "eventual", "session", "primary", "causal", "global"))
		case "bound":
			in.Level = core.Level(f.duration(value))
		case "floor":
			for name := range strings.SplitSeq(value, ",") {
				in.Need.Floors = append(in.Need.Floors, &core.Floor{Place: &core.Place{Node: f.index(strings.TrimSuffix(name, "'"))}})
				if strings.HasSuffix(name, "'") {
					in.Need.Floors[0].Start.At = 99 // another run
				}
			}
		case "asked":
			in.Asked = true
		case "barred":
			in.Barred |= 1 << f.index(value)
		case "fallback":
			in.Fallback = core.Fallback(f.choice(value, "unset", "primary", "error", "stale"))
		case "nosession":
			in.HasSession = false
			if in.Level == core.LevelSession {
				in.Level = core.LevelUnset
			}
		case "need":
			for p := range strings.SplitSeq(value, ",") {
				in.Need.Positions = append(in.Need.Positions, f.position(p))
			}
		case "captured":
			in.Need.CapturedAt = fixtureNow.Add(f.duration(value))
		case "until":
			in.Need.Until = fixtureNow.Add(f.duration(value))
		case "wrote":
			in.Need.LastWrite = fixtureNow.Add(f.duration(value))
		case "pending":
			in.Need.Pending = core.NewCapture(nil)
		case "unproven":
			in.Need.Unproven = true
		case "open":
			in.Need.Open = true
		case "sticky":
			in.Strategy = core.Strategy{Sticky: true, Window: f.duration(value)}
			in.Budget = 0
		case "maxlag":
			in.MaxLag = f.duration(value)
		case "budget":
			in.Budget = f.duration(value)
		case "node":
			in.Node = f.index(value)
		case "replica":
			in.Replica = f.index(value)
		case "exclude":
			for name := range strings.SplitSeq(value, ",") {
				in.Exclude |= 1 << f.index(name)
			}
		case "allprimary":
			in.PrimaryAll = true
		case "waited":
			in.Waited = true
		case "nocapture":
			in.NoCapture = true
		default:
			require.Fail(f, "unknown word "+w, f.where)
		}
	}
	return in
}

func (f *fixture) render(d core.Decision) string {
	text := "= " + [...]string{"primary", "replica", "wait", "capture", "ask", "floor", "since", "now", "unproven", "refuse"}[d.Action]
	var nodes []string
	for mask := d.Nodes; mask != 0; mask &= mask - 1 {
		nodes = append(nodes, f.names[bits.TrailingZeros64(mask)])
	}
	if len(nodes) > 0 {
		text += " " + strings.Join(nodes, ",")
	}
	text += " " + d.Reason.String()
	if d.FellBack {
		text += " fellback"
	}
	return text
}

func (f *fixture) position(text string) core.Position {
	p := core.Position{Kind: core.KindPostgres, System: 7, Timeline: 1}
	parts := strings.Split(text, ":")
	lsn, err := core.ParseLSN(parts[len(parts)-1])
	require.NoError(f, err, f.where)
	p.LSN = lsn
	if len(parts) > 1 {
		p.Timeline = uint32(f.number(parts[len(parts)-2]))
	}
	if len(parts) > 2 {
		p.System = f.number(parts[0])
	}
	return p
}

func (f *fixture) number(text string) uint64 {
	v, err := strconv.ParseUint(text, 10, 64)
	require.NoError(f, err, f.where)
	return v
}

func (f *fixture) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	require.NoError(f, err, f.where)
	return d
}

func (f *fixture) index(name string) int {
	i := slices.Index(f.names, name)
	require.GreaterOrEqual(f, i, 0, f.where)
	return i
}

func (f *fixture) choice(value string, of ...string) int {
	i := slices.Index(of, value)
	require.GreaterOrEqual(f, i, 0, f.where)
	return i
}
