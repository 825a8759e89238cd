package sqlclass

import (
	_ "embed"
	"strings"
	"sync"
)

//go:embed data/mysql_functions.txt
var mysqlFunctions string

//go:embed data/mysql_keywords.txt
var mysqlKeywords string

//go:embed data/mariadb_functions.txt
var mariadbFunctions string

//go:embed data/mariadb_keywords.txt
var mariadbKeywords string

var mysqlWords = sync.OnceValue(func() *vocabulary { return newMySQLWords(mysqlKeywords, mysqlFunctions) })

var mariadbWords = sync.OnceValue(func() *vocabulary { return newMySQLWords(mariadbKeywords, mariadbFunctions) })

// newMySQLWords builds the vocabulary of MySQL or MariaDB from the server's lists, and from what the lists cannot say.
func newMySQLWords(keywordList, functionList string) *vocabulary {
	words := make(map[string]*entry, 2048)
	get := getter(words)
	lines(keywordList, func(line string) {
		word, category, _ := strings.Cut(line, " ")
		e := get(word)
		e.keyword, e.kw, e.reserved = true, keywords[word], category == "R"
	})
	// The rules look at words that one of the two servers does not list, and at words of the other's statements.
	for word, kw := range keywords {
		if e := get(word); e.kw == kwNone {
			e.keyword, e.kw = true, kw
		}
	}
	each(get, func(e *entry) { e.rule = true }, mysqlRuleWords)
	each(get, func(e *entry) { e.keyword, e.infix = true, true }, "against columns of over escape row ordinality conflict")
	each(get, func(e *entry) { e.keyword, e.reserved = true, true }, "row") // ROW (1, 2)
	each(get, func(e *entry) { e.rule, e.kw = true, kwHeed }, "nextval currval")
	each(get, func(e *entry) { e.operand = true },
		"null true false end current_date current_time current_timestamp localtime localtimestamp utc_date utc_time utc_timestamp current_user")
	each(get, func(e *entry) { e.keyword, e.prefix = true, true },
		"escape of timestamp transaction value sql_no_cache sql_cache sql_buffer_result sql_calc_found_rows sounds any some offset")
	lines(functionList, func(line string) {
		if e := get(line); mysqlLocal(line) {
			e.effect = effectNode
		} else {
			e.effect = effectNone
		}
	})
	for effect, names := range mysqlEffects {
		each(get, func(e *entry) { e.effect = effect }, names)
	}
	each(get, func(e *entry) { e.place = placeNode }, "performance_schema sys mysql")
	each(get, func(e *entry) { e.place = placeSchema }, "information_schema")
	each(get, func(e *entry) { e.place = placeEvery }, `tables columns statistics schemata views routines triggers parameters partitions
		key_column_usage table_constraints referential_constraints check_constraints character_sets collations
		collation_character_set_applicability table_privileges column_privileges schema_privileges keywords sql_functions
		st_geometry_columns st_spatial_reference_systems st_units_of_measure tables_extensions columns_extensions
		table_constraints_extensions view_routine_usage view_table_usage column_statistics`)
	return newVocabulary(mysqlAlphabet, words)
}

// mysqlRuleWords are words that the rules look at and that not both servers list.
const mysqlRuleWords = `immediate statement package sequence backup xa extended partitions format autocommit charset resource session
	local status collation triggers profile profiles errors warnings count variables names character role password default or not
	recover atomic or fields index indexes keys databases schemas create columns tables full immediate begin start commit rollback
	savepoint release unlock flush handler use prepare deallocate execute get help checksum do set show call insert replace load
	truncate rename grant revoke optimize repair check cache install uninstall import change reset stop purge kill shutdown restart
	binlog clone alter drop describe desc chain prepared`

// mysqlLocal names families of functions that look at one node, and those that only the server's own views may call.
func mysqlLocal(name string) bool {
	for _, prefix := range []string{"internal_", "can_access_", "get_dd_", "ps_", "wsrep_", "spider_", "mysql_", "is_visible_dd_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// mysqlEffects is what the functions do that are not harmless.
var mysqlEffects = map[effect]string{
	// Functions of earlier versions that the listed ones have lost.
	effectNone: "md5 sha sha1",
	effectNode: `version sleep load_file master_pos_wait source_pos_wait master_gtid_wait wait_for_executed_gtid_set
		wait_until_sql_thread_after_gtids binlog_gtid_pos icu_version roles_graphml benchmark validate_password_strength`,
	effectDepends: `last_insert_id found_rows row_count connection_id lastval is_used_lock is_free_lock`,
	effectState:   `get_lock release_lock release_all_locks`,
	effectWrite:   `nextval setval`,
}
