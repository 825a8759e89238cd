package lite

import (
	"sync"
	"time"
)

// transaction is what one commit has changed.
type transaction struct {
	number uint64
	at     time.Time
	pages  []page
	size   uint32 // of the database, in pages
}

// history is what the primary has committed, as far as not every replica has it.
type history struct {
	mu      sync.Mutex
	txs     []transaction // guarded by mu: in order, without gaps
	last    uint64        // guarded by mu: the number of the newest transaction, which may not be in txs any more
	changed chan struct{} // guarded by mu: closed when something is added, or cut off
}

// add appends a transaction. h.mu is held.
func (h *history) addLocked(pages []page, size uint32) {
	h.last++
	h.txs = append(h.txs, transaction{number: h.last, at: time.Now(), pages: pages, size: size})
	h.tellLocked()
}

func (h *history) tellLocked() {
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// newest returns the number of the newest transaction.
func (h *history) newest() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// after returns the transaction that follows a number. When there is none yet, changed is closed as soon as there may be.
func (h *history) after(number uint64) (tx transaction, ok bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.txs) > 0 && number < h.last && number+1 >= h.txs[0].number {
		return h.txs[number+1-h.txs[0].number], true, nil
	}
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return transaction{}, false, h.changed
}

// cut drops what comes after a number: a server takes over that does not have it.
func (h *history) cutLocked(number uint64) {
	for len(h.txs) > 0 && h.txs[len(h.txs)-1].number > number {
		h.txs = h.txs[:len(h.txs)-1]
	}
	h.last = min(h.last, number)
	h.tellLocked()
}

// trim drops what everybody has.
func (h *history) trim(number uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for n < len(h.txs) && h.txs[n].number <= number {
		h.txs[n] = transaction{}
		n++
	}
	h.txs = h.txs[n:]
}
