package simulation

import (
	"slices"
	"sort"
	"time"

	"github.com/readroute/readroute/internal/core"
)

// The sizes of the log's pages and segments, in bytes. Segments are as small as PostgreSQL makes them, so that their starts,
// whose page header is longer, are met.
const (
	pageSize    = 8192
	segmentSize = 1 << 20
)

// write is one version of a key.
type write struct{ key, version, op int }

// record is one record of a log: a commit, or something that commits nothing.
type record struct {
	by      *server
	at      time.Time // when it was inserted
	flushed time.Time // when it is, or will be, on the disk of the server that has inserted it
	seen    time.Time // when reads on that server show it
	said    time.Time // when that server says that it has it, as MySQL and MariaDB do after it is seen
	end     core.LSN
	gtid    gtid // zero when it commits nothing
	writes  []write
}

// gtid names a transaction by the server that wrote it.
type gtid struct {
	server int
	number uint64
}

// branch is a log, or the part of one that begins where another was left: at a promotion, or at a crash that has lost the
// end. A promotion begins a new timeline; a crash does not.
type branch struct {
	timeline uint32
	parent   *branch
	fork     int // how many records it has from its parent
	start    core.LSN
	records  []record // those after fork
}

// len is how many records there are, the parent's included.
func (b *branch) len() int { return b.fork + len(b.records) }

func (b *branch) get(i int) *record {
	for i < b.fork {
		b = b.parent
	}
	return &b.records[i-b.fork]
}

// lsn is where the n-th record ends.
func (b *branch) lsn(n int) core.LSN {
	if n <= b.fork {
		if b.parent == nil || n == b.fork {
			return b.start
		}
		return b.parent.lsn(n)
	}
	return b.get(n - 1).end
}

// place is a place in a log: n records of it have been inserted, received or replayed.
type place struct {
	b *branch
	n int
}

func (p place) lsn() core.LSN { return p.b.lsn(p.n) }

// origin is the same place on the branch whose own it is.
func (p place) origin() place {
	for p.b.parent != nil && p.n <= p.b.fork {
		p.b = p.b.parent
	}
	return p
}

// within reports whether q has all that p has.
func (p place) within(q place) bool {
	p = p.origin()
	for q.b != p.b {
		if q.b.parent == nil {
			return false
		}
		q = place{q.b.parent, min(q.n, q.b.fork)}
	}
	return p.n <= q.n
}

// common is the last place that both have gone through.
func common(p, q place) place {
	been := map[*branch]int{}
	for ; q.b != nil; q = (place{q.b.parent, min(q.n, q.b.fork)}) {
		been[q.b] = q.n
	}
	for {
		if n, ok := been[p.b]; ok {
			return place{p.b, min(p.n, n)}
		}
		p = place{p.b.parent, min(p.n, p.b.fork)}
	}
}

// branchOff begins a branch at p.
func (p place) branchOff(timeline uint32) *branch {
	return &branch{timeline: timeline, parent: p.b, fork: p.n, start: p.lsn()}
}

// append adds a record of about size bytes, whose end is a page's end when that is asked for.
func (b *branch) append(r record, size int, fillPage bool) {
	begin := b.lsn(b.len())
	if begin%pageSize == 0 {
		begin += header(begin)
	}
	r.end = begin + core.LSN(size)
	if fillPage {
		r.end = (begin/pageSize + 1) * pageSize
	} else if off := r.end % pageSize; off > 0 && off <= header(r.end-off) {
		r.end += header(r.end - off) // a record goes on behind the header of a page
	}
	b.records = append(b.records, r)
	// What is flushed, is flushed with all before it.
	for i := len(b.records) - 2; i >= 0 && b.records[i].flushed.After(r.flushed); i-- {
		b.records[i].flushed = r.flushed
	}
}

// header is the size of the header of the page at l.
func header(l core.LSN) core.LSN {
	if l%segmentSize == 0 {
		return 40
	}
	return 24
}

// insertPosition is what a server says of where it inserts: behind the header of a page that has nothing in it yet.
func insertPosition(end core.LSN) core.LSN {
	if end%pageSize == 0 {
		return end + header(end)
	}
	return end
}

// flushedBy returns how much of p was flushed at a moment, which is at least n records.
func (p place) flushedBy(at time.Time, n int) int {
	return n + sort.Search(p.n-n, func(i int) bool { return p.b.get(n + i).flushed.After(at) })
}

// entry is where a version of a key is in the log.
type entry struct {
	write
	b     *branch
	index int
}

// shows returns the versions of a key that a server shows at p, and those of more records that it has.
func (s *server) shows(key int, p place, more []place) []int {
	now := time.Now()
	var versions []int
	for _, e := range s.c.keys[key] {
		at := place{e.b, e.index + 1}
		if !at.within(p) && !slices.Contains(more, at) {
			continue
		}
		if r := e.b.get(e.index); r.by != s || !r.seen.After(now) {
			versions = append(versions, e.version)
		}
	}
	return versions
}
