package sqlclass

// Recent is the answer that one caller was given last. It is for one goroutine at a time. The zero Recent has none.
type Recent struct{ answer *answer }

// recentBytes is how long a text may be that is kept so: it may have been dropped from the cache.
const recentBytes = 1024

// Get returns the answer for a text when it is that, still in the cache, and marked there as one that is asked for; else nil. It counts
// nothing: see [Classifier.Hit].
func (r *Recent) Get(query string) *Statement {
	a := r.answer
	if a != nil && a.text == query && a.marks.Load() == markUsed {
		return &a.st
	}
	return nil
}

// Hit counts an answer that Get has given, which its caller does not count in another way.
func (c *Classifier) Hit(caller uint32) { c.answers.hits.add(caller) }
