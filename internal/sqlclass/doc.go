// Package sqlclass tells from a statement's text whether it is known to be a read.
//
// The answer is wrong in one direction only: a statement is [Read] when every token of it is understood and harmless, and
// anything else (a text that does not lex, an unknown function, an unknown verb, an empty text) is [Unknown] and belongs on
// the primary. The whole token stream of the text decides, under the rules of its dialect; nothing is decided by a prefix,
// a suffix or a pattern.
//
// The package is pure: it opens no connection and knows no pool. What only a server can tell (volatility of a user's own
// functions, views over functions that are not harmless, sequences, unlogged tables) comes in through [Classifier.SetCatalogue].
package sqlclass
