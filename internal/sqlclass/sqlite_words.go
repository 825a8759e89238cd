package sqlclass

import "sync"

// In brackets stand names, as Microsoft writes them; a text with one is not followed.
var sqliteAlphabet = newAlphabet("\\{}[]#", map[byte]charClass{'"': charName, '`': charName, '$': charDollar, ':': charDollar, '@': charDollar})

// sqliteWords is built from the documentation of SQLite 3.54: its keywords, and its functions except those that act on a session or
// a file (load_extension, readfile, edit), of which an application can have more.
var sqliteWords = sync.OnceValue(func() *vocabulary {
	words := make(map[string]*entry, 512)
	get := getter(words)
	for word, kw := range keywords {
		e := get(word)
		e.keyword, e.kw = true, kw
	}
	each(get, func(e *entry) { e.keyword = true }, sqliteKeywords)
	each(get, func(e *entry) { e.keyword, e.reserved = true, true }, sqliteReserved)
	each(get, func(e *entry) { e.keyword, e.operand = true, true }, "null true false end current_date current_time current_timestamp")
	each(get, func(e *entry) { e.rule = true }, "query plan begin")
	each(get, func(e *entry) { e.effect = effectNone }, sqliteFunctions)
	each(get, func(e *entry) { e.effect = effectNode }, "sqlite_version sqlite_source_id sqlite_compileoption_get sqlite_compileoption_used")
	each(get, func(e *entry) { e.effect = effectDepends }, "last_insert_rowid changes total_changes")
	return newVocabulary(sqliteAlphabet, words)
})

// sqliteReserved are the keywords after which a parenthesis is no call.
const sqliteReserved = `all and as asc between by case cast check collate cross default desc distinct else escape except exists
	filter from full glob group having in inner intersect into is isnull join left like limit match materialized natural not notnull
	offset on or order outer over partition primary range recursive references regexp returning right rows select set table then union unique using
	values when where window with`

// sqliteKeywords are the others that begin a statement.
const sqliteKeywords = `abort alter analyze attach begin commit create delete detach drop end explain insert pragma reindex release
	replace rollback savepoint update vacuum query plan to no chain`

const sqliteFunctions = `abs avg char coalesce concat concat_ws count cume_dist date datetime dense_rank first_value format group_concat
	hex if ifnull iif instr julianday lag last_value lead length like glob likelihood likely lower ltrim max median min nth_value ntile nullif
	octet_length percent_rank percentile percentile_cont percentile_disc printf quote random randomblob rank replace round row_number
	rtrim sign soundex sqlite_offset strftime string_agg substr substring sum time timediff total trim typeof unhex unicode unistr
	unistr_quote unixepoch unlikely upper zeroblob
	json json_array json_array_length json_each json_error_position json_extract json_group_array json_group_object json_insert
	json_object json_patch json_pretty json_quote json_remove json_replace json_set json_tree json_type json_valid
	jsonb jsonb_array jsonb_each jsonb_extract jsonb_group_array jsonb_group_object jsonb_insert jsonb_object jsonb_patch jsonb_remove
	jsonb_replace jsonb_set jsonb_tree
	acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow power radians sin sinh
	sqrt tan tanh trunc bm25 highlight snippet`
