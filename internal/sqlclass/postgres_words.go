package sqlclass

import (
	_ "embed"
	"strings"
	"sync"
)

//go:generate go run ./generate

//go:embed data/postgres_functions.txt
var postgresFunctions string

//go:embed data/postgres_keywords.txt
var postgresKeywords string

//go:embed data/postgres_catalogs.txt
var postgresCatalogs string

//go:embed data/postgres_views.txt
var postgresViews string

// postgresWords is built from the server's own lists, and from what the lists cannot say.
var postgresWords = sync.OnceValue(func() *vocabulary {
	words := make(map[string]*entry, 4096)
	get := getter(words)
	lines(postgresKeywords, func(line string) {
		word, category, _ := strings.Cut(line, " ")
		e := get(word)
		e.keyword, e.kw = true, keywords[word]
		e.reserved = category == "R" || category == "C"
		e.infix = category == "T"
	})
	each(get, func(e *entry) { e.infix = true }, "escape columns passing conflict set over filter varying second")
	each(get, func(e *entry) { e.prefix = true },
		"like ilike similar is join overlaps by escape zone first next rows range groups path passing ref value key content document version set")
	each(get, func(e *entry) { e.operand = true },
		`null true false end user session_user system_user current_user current_role current_catalog current_schema current_date
		current_time current_timestamp localtime localtimestamp char character nchar bit`)
	lines(postgresFunctions, func(line string) {
		if e := get(line); postgresLocal(line) {
			e.effect = effectNode
		} else {
			e.effect = effectNone
		}
	})
	for effect, names := range postgresEffects {
		each(get, func(e *entry) { e.effect = effect }, names)
	}
	lines(postgresCatalogs, func(line string) { get(line).place = placeEvery })
	lines(postgresViews, func(line string) { get(line).place = placeEvery })
	each(get, func(e *entry) { e.place = placeEvery }, "pg_lsn pg_snapshot pg_node_tree pg_ndistinct pg_dependencies pg_mcv_list pg_catalog pg_default")
	each(get, func(e *entry) { e.place = placeSession }, "pg_cursors pg_prepared_statements pg_temp")
	each(get, func(e *entry) { e.rule = true }, "bernoulli repack")
	return newVocabulary(postgresAlphabet, words)
})

func getter(words map[string]*entry) func(string) *entry {
	return func(word string) *entry {
		e := words[word]
		if e == nil {
			e = new(entry)
			words[word] = e
		}
		return e
	}
}

// each calls f with the entry of every word in a list.
func each(get func(string) *entry, f func(*entry), list string) {
	for _, word := range strings.Fields(list) {
		f(get(word))
	}
}

// postgresLocal names families of functions that the catalog of the server calls stable and whose result is of one node or
// session, and those that run a query that they are given or that stands behind a name.
func postgresLocal(name string) bool {
	for _, prefix := range []string{
		"pg_stat_get_", "pg_show_", "pg_walfile_", "pg_available_extension", "pg_event_trigger_", "pg_extension_", "inet_client_",
		"inet_server_", "pg_tablespace_", "schema_to_xml", "database_to_xml", "table_to_xml", "fmgr_", "binary_upgrade_",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// postgresEffects is what the volatility in the catalog does not tell.
var postgresEffects = map[effect]string{
	// Volatile, and yet all they do is to look at a clock or to draw a number; bernoulli and system are sampling methods.
	effectNone: `clock_timestamp timeofday random random_normal gen_random_uuid uuidv4 uuidv7 array_sample array_shuffle
		txid_current_snapshot pg_current_snapshot pg_partition_tree pg_partition_ancestors pg_collation_actual_version`,
	// Of one node: they change nothing that another node or session sees.
	effectNode: `pg_is_in_recovery pg_conf_load_time pg_config pg_postmaster_start_time pg_get_replication_slots
		pg_replication_origin_oid pg_settings_get_flags version pg_current_wal_lsn pg_current_wal_insert_lsn
		pg_current_wal_flush_lsn pg_last_wal_receive_lsn pg_last_wal_replay_lsn pg_last_xact_replay_timestamp pg_control_system
		pg_control_checkpoint pg_control_recovery pg_control_init pg_lock_status pg_blocking_pids pg_safe_snapshot_blocking_pids
		pg_is_wal_replay_paused pg_get_wal_replay_pause_state pg_sleep pg_sleep_for pg_sleep_until pg_relation_size pg_table_size
		pg_indexes_size pg_total_relation_size pg_database_size pg_sequence_last_value pg_jit_available pg_current_logfile
		pg_relation_filenode pg_relation_filepath pg_filenode_relation pg_xact_status txid_status pg_last_committed_xact
		pg_xact_commit_timestamp pg_xact_commit_timestamp_origin pg_hba_file_rules pg_ident_file_mappings pg_get_publication_sequences
		pg_timezone_names pg_timezone_abbrevs pg_read_file pg_read_binary_file pg_stat_file pg_ls_dir pg_ls_logdir pg_ls_waldir
		pg_ls_tmpdir pg_ls_archive_statusdir icu_unicode_version unicode_version`,
	effectDepends: `currval lastval current_setting pg_backend_pid pg_my_temp_schema pg_is_other_temp_schema
		pg_listening_channels pg_cursor pg_prepared_statement pg_trigger_depth pg_client_encoding txid_current_if_assigned
		pg_current_xact_id_if_assigned current_query pg_replication_origin_session_is_setup pg_replication_origin_session_progress`,
	effectWrite: `nextval setval pg_notify txid_current pg_current_xact_id lo_creat lo_create lo_import lo_export lo_put
		lo_from_bytea lo_unlink lo_truncate lo_truncate64 lowrite pg_logical_emit_message pg_create_restore_point pg_switch_wal pg_promote
		pg_create_physical_replication_slot pg_create_logical_replication_slot pg_drop_replication_slot`,
	effectState: `setseed pg_advisory_lock pg_advisory_lock_shared pg_try_advisory_lock pg_try_advisory_lock_shared
		pg_advisory_unlock pg_advisory_unlock_shared pg_advisory_unlock_all pg_replication_origin_session_setup
		pg_replication_origin_session_reset`,
	effectTxState: `pg_advisory_xact_lock pg_advisory_xact_lock_shared pg_try_advisory_xact_lock
		pg_try_advisory_xact_lock_shared pg_export_snapshot lo_open lo_close lo_lseek lo_lseek64 lo_tell lo_tell64 loread`,
	effectSetConfig: `set_config`,
}
