package sqlclass

// Recent is the answer that one caller was given last. It is for one goroutine at a time. The zero Recent has none.
type Recent struct{ answer *answer }

// recentBytes is how long a text may be that is kept so: it may have been dropped from the cache.
const recentBytes = 1024

// Get returns the answer for a text when it is that, and still in the cache; else nil. It counts nothing: see [Classifier.Hit].
func (r *Recent) Get(query string) *Statement {
	a := r.answer
	if a == nil || a.text != query {
		return nil
	}
	if a.gone.Load() {
		r.answer = nil
		return nil
	}
	if !a.used.Load() {
		a.used.Store(true)
	}
	return &a.st
}

// Hit counts an answer that Get has given, which its caller does not count in another way.
func (c *Classifier) Hit(caller uint32) { c.answers.hits.add(caller) }
