package sqlclass

import (
	_ "embed"
	"strings"
)

//go:generate go run ./generate

//go:embed data/postgres_functions.txt
var postgresFunctions string

//go:embed data/postgres_keywords.txt
var postgresKeywords string

//go:embed data/postgres_catalogs.txt
var postgresCatalogs string

// keyword is a word that the rules look at. Other keywords are kwNone.
type keyword uint8

const (
	kwNone keyword = iota
	kwAnalyze
	kwAs
	kwBy
	kwCube
	kwDelete
	kwDistinct
	kwExplain
	kwFor
	kwGrouping
	kwInsert
	kwInto
	kwKey
	kwMaterialized
	kwMerge
	kwNo
	kwNot
	kwOn
	kwOperator
	kwRecursive
	kwRollup
	kwSelect
	kwSets
	kwShare
	kwTable
	kwTablesample
	kwTrue
	kwUpdate
	kwValues
	kwVerbose
	kwWith
)

var keywords = map[string]keyword{
	"analyze": kwAnalyze, "analyse": kwAnalyze, "as": kwAs, "by": kwBy, "cube": kwCube, "delete": kwDelete,
	"distinct": kwDistinct, "explain": kwExplain, "for": kwFor, "grouping": kwGrouping, "insert": kwInsert,
	"into": kwInto, "key": kwKey, "materialized": kwMaterialized, "merge": kwMerge, "no": kwNo, "not": kwNot, "on": kwOn,
	"operator": kwOperator, "recursive": kwRecursive, "rollup": kwRollup, "select": kwSelect, "sets": kwSets,
	"share": kwShare, "table": kwTable, "tablesample": kwTablesample, "true": kwTrue, "update": kwUpdate,
	"values": kwValues, "verbose": kwVerbose, "with": kwWith,
}

// effect is what a function of the server's own does, as far as routing is concerned.
type effect uint8

const (
	effectUnknown   effect = iota // nothing is known of it
	effectNone                    // it reads what every node has
	effectNode                    // its result belongs to one node or session
	effectWrite                   // it changes data, or a standby refuses it
	effectDepends                 // its result depends on session state
	effectState                   // it leaves session state
	effectTxState                 // it leaves state that ends with the transaction
	effectSetConfig               // the one or the other, by its last argument
)

// entry is what is known of one word.
type entry struct {
	word string
	kw   keyword
	// special: a keyword that cannot be the name of a user's function, so that a parenthesis after it is no call of one.
	special bool
	effect  effect
	catalog bool // a table of the system catalog, the same on every node
}

// maxWord is the longest word that the vocabulary can hold: PostgreSQL cuts longer names off (NAMEDATALEN).
const maxWord = 63

// vocabulary is the words of one dialect, in lower case. It is immutable.
type vocabulary struct {
	words map[string]*entry
}

// find looks a word up without regard to the case of its ASCII letters.
func (v *vocabulary) find(s string) *entry {
	if len(s) > maxWord {
		return nil
	}
	var buf [maxWord]byte
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[i] = c
	}
	return v.words[string(buf[:len(s)])]
}

// findExact looks a quoted name up.
func (v *vocabulary) findExact(s string) *entry { return v.words[s] }

// refuses reports that a word makes the text unreadable. No word does in PostgreSQL.
func (v *vocabulary) refuses(string) bool { return false }

func (v *vocabulary) entry(word string) *entry {
	e := v.words[word]
	if e == nil {
		e = &entry{word: word}
		v.words[word] = e
	}
	return e
}

// postgresVocabulary is built from the server's own lists, and from what the lists cannot say.
var postgresVocabulary = func() *vocabulary {
	v := &vocabulary{words: make(map[string]*entry, 4096)}
	lines(postgresKeywords, func(line string) {
		word, category, _ := strings.Cut(line, " ")
		e := v.entry(word)
		e.kw = keywords[word]
		e.special = category != "U"
	})
	lines(postgresFunctions, func(line string) {
		e := v.entry(line)
		e.effect = effectNone
		if nodeLocal(line) {
			e.effect = effectNode
		}
	})
	lines(postgresCatalogs, func(line string) { v.entry(line).catalog = true })
	for effect, names := range postgresEffects {
		for _, name := range strings.Fields(names) {
			v.entry(name).effect = effect
		}
	}
	return v
}()

func lines(list string, f func(string)) {
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			f(line)
		}
	}
}

// nodeLocal names families of functions that the catalog calls stable and whose result is of one node or session.
func nodeLocal(name string) bool {
	for _, prefix := range []string{
		"pg_stat_get_", "pg_show_", "pg_walfile_", "pg_available_extension", "pg_event_trigger_", "inet_client_",
		"inet_server_", "pg_tablespace_",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// postgresEffects is what the volatility in the catalog does not tell.
var postgresEffects = map[effect]string{
	// Volatile, and yet all they do is to look at a clock, to draw a number or to wait.
	effectNone: `clock_timestamp timeofday random random_normal gen_random_uuid uuidv4 uuidv7 pg_sleep pg_sleep_for pg_sleep_until
		txid_current_snapshot pg_current_snapshot`,
	effectNode: `pg_backend_pid pg_is_in_recovery pg_conf_load_time pg_config pg_cursor pg_prepared_statement
		pg_postmaster_start_time pg_my_temp_schema pg_is_other_temp_schema pg_listening_channels pg_extension_update_paths
		pg_get_replication_slots pg_replication_origin_oid pg_settings_get_flags pg_client_encoding version
		pg_current_wal_lsn pg_current_wal_insert_lsn pg_current_wal_flush_lsn pg_last_wal_receive_lsn pg_last_wal_replay_lsn
		pg_last_xact_replay_timestamp pg_control_system pg_control_checkpoint pg_control_recovery pg_control_init
		pg_blocking_pids pg_lock_status pg_trigger_depth`,
	effectWrite: `nextval setval pg_notify txid_current pg_current_xact_id txid_current_if_assigned
		pg_current_xact_id_if_assigned lo_creat lo_create lo_import lo_export lo_open lo_close lo_put lo_from_bytea lo_unlink
		lo_truncate lo_truncate64 lowrite loread lo_lseek lo_lseek64 lo_tell lo_tell64 lo_get`,
	effectDepends: `currval lastval current_setting`,
	effectState: `setseed pg_advisory_lock pg_advisory_lock_shared pg_try_advisory_lock pg_try_advisory_lock_shared
		pg_advisory_unlock pg_advisory_unlock_shared pg_advisory_unlock_all`,
	effectTxState: `pg_advisory_xact_lock pg_advisory_xact_lock_shared pg_try_advisory_xact_lock
		pg_try_advisory_xact_lock_shared pg_export_snapshot`,
	effectSetConfig: `set_config`,
}
