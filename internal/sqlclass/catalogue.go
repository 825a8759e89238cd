package sqlclass

import (
	"hash/maphash"
	"slices"
	"strings"
)

// CatalogueKind says what a [CatalogueRow] tells of its object.
type CatalogueKind string

// The kinds of rows. Text is what the server prints for the object where the classifier has to look into it.
const (
	// CatalogueReads: every function of this name in this schema reads only, as far as the server knows. Text is the
	// expressions that stand for arguments left out.
	CatalogueReads CatalogueKind = "reads"
	// CatalogueVolatile: some function of this name in this schema is volatile.
	CatalogueVolatile CatalogueKind = "volatile"
	// CatalogueView: a view; Text is its query.
	CatalogueView CatalogueKind = "view"
	// CatalogueExpression: a relation or type that evaluates the expression in Text when it is read or cast to: a policy of
	// row security, the check of a domain.
	CatalogueExpression CatalogueKind = "expression"
	// CataloguePrimary: what has this name can only be read on the primary: a sequence, an unlogged table, a type with a
	// cast over a volatile function, a table that has a column with such a cast.
	CataloguePrimary CatalogueKind = "primary"
	// CatalogueAttribute: a volatile function that can be called as if it were a column: t.name for name(t).
	CatalogueAttribute CatalogueKind = "attribute"
	// CatalogueOperator: an operator over a volatile function.
	CatalogueOperator CatalogueKind = "operator"
)

// CatalogueRow is what the primary's catalogue says of one object of the user's: a row of [PostgresCatalogueQuery] or
// [MySQLCatalogueQuery], which whoever owns connections runs on the primary now and then.
type CatalogueRow struct {
	Kind               CatalogueKind
	Schema, Name, Text string
}

// PostgresCatalogueQuery returns the rows of a PostgreSQL database: kind, schema, name, text. It needs no special right.
const PostgresCatalogueQuery = `
WITH own AS (
	SELECT oid FROM pg_catalog.pg_namespace
	WHERE nspname NOT IN ('pg_catalog', 'information_schema') AND nspname NOT LIKE 'pg\_toast%' AND nspname NOT LIKE 'pg\_temp%'
), fn AS (
	SELECT p.oid, p.pronamespace, p.proname, p.pronargs - p.pronargdefaults AS needed, p.proargtypes[0] AS argument, pg_catalog.pg_get_expr(p.proargdefaults, 0) AS defaults,
		p.provolatile = 'v' OR EXISTS (
			SELECT FROM pg_catalog.pg_aggregate a JOIN pg_catalog.pg_proc f ON f.oid IN (a.aggtransfn, a.aggfinalfn,
				a.aggcombinefn, a.aggserialfn, a.aggdeserialfn, a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn)
			WHERE a.aggfnoid = p.oid AND f.provolatile = 'v') AS changes
	FROM pg_catalog.pg_proc p WHERE p.pronamespace IN (SELECT oid FROM own) AND p.prokind <> 'p'
), casts AS (
	SELECT c.castsource, c.casttarget, c.castcontext FROM pg_catalog.pg_cast c JOIN fn ON fn.oid = c.castfunc WHERE fn.changes
	UNION ALL
	SELECT t.oid, t.oid, 'i' FROM pg_catalog.pg_type t JOIN fn ON fn.oid IN (t.typinput, t.typoutput, t.typreceive, t.typsend) WHERE fn.changes
)
SELECT CASE WHEN pg_catalog.bool_or(changes) THEN 'volatile' ELSE 'reads' END AS kind, n.nspname::text AS schema, fn.proname::text AS name,
	coalesce(pg_catalog.string_agg(defaults, ', '), '') AS text
FROM fn JOIN pg_catalog.pg_namespace n ON n.oid = fn.pronamespace GROUP BY n.nspname, fn.proname
UNION ALL
SELECT DISTINCT 'attribute', n.nspname::text, fn.proname::text, ''
FROM fn JOIN pg_catalog.pg_type t ON t.oid = fn.argument JOIN pg_catalog.pg_namespace n ON n.oid = fn.pronamespace
WHERE fn.changes AND fn.needed <= 1 AND t.typtype IN ('c', 'd', 'p')
UNION ALL
SELECT 'view', n.nspname::text, c.relname::text, pg_catalog.pg_get_viewdef(c.oid)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'v' AND n.oid IN (SELECT oid FROM own)
UNION ALL
SELECT 'expression', n.nspname::text, c.relname::text, pg_catalog.pg_get_expr(p.polqual, p.polrelid)
FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_class c ON c.oid = p.polrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE p.polqual IS NOT NULL AND p.polcmd IN ('r', '*')
UNION ALL
SELECT 'expression', n.nspname::text, t.typname::text, pg_catalog.pg_get_expr(k.conbin, 0)
FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_type t ON t.oid = k.contypid JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE k.conbin IS NOT NULL AND n.oid IN (SELECT oid FROM own)
UNION ALL
SELECT 'primary', n.nspname::text, c.relname::text, ''
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.oid IN (SELECT oid FROM own) AND (c.relkind = 'S' OR c.relpersistence = 'u' AND c.relkind IN ('r', 'm', 'p')
	OR c.oid IN (SELECT i.inhparent FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class u ON u.oid = i.inhrelid WHERE u.relpersistence = 'u')
	OR c.relkind IN ('r', 'v', 'm', 'p', 'f') AND EXISTS (
		SELECT FROM pg_catalog.pg_attribute a JOIN casts ON casts.castsource = a.atttypid
		WHERE a.attrelid = c.oid AND a.attnum > 0 AND casts.castcontext = 'i'))
UNION ALL
SELECT 'primary', n.nspname::text, t.typname::text, ''
FROM casts JOIN pg_catalog.pg_type t ON t.oid = casts.casttarget JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
UNION ALL
SELECT 'operator', n.nspname::text, o.oprname::text, ''
FROM pg_catalog.pg_operator o JOIN fn ON fn.oid = o.oprcode JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace WHERE fn.changes`

// MySQLCatalogueQuery returns the rows of a MySQL or MariaDB server. What a stored function is declared to do (DETERMINISTIC,
// READS SQL DATA) is not held against what it does, so functions have to be named by the user.
const MySQLCatalogueQuery = `
SELECT 'view', table_schema, table_name, view_definition FROM information_schema.views
WHERE table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')
UNION ALL
SELECT 'primary', table_schema, table_name, '' FROM information_schema.tables WHERE table_type = 'SEQUENCE'`

// SetCatalogue replaces what the classifier knows of the user's own objects. Names count in every schema: a text does not say
// where the server will find one. Before the language is settled it does nothing. Rows that are the same as before, in any order, change nothing and leave the cache alone.
func (c *Classifier) SetCatalogue(rows []CatalogueRow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := fingerprint(rows)
	if c.vocab.Load() == nil || c.catalogue == sum {
		return
	}
	c.catalogue = sum
	v := c.lang.base.with(func(get func(string) *entry) {
		harmful := map[string]bool{}
		for _, r := range rows {
			name := foldASCII(r.Name)
			switch {
			case r.Kind == CatalogueVolatile, r.Kind == CatalogueReads && !c.harmless(c.lang.base, "SELECT "+r.Text):
				harmful[name] = true
				get(name).shadowed = true
			case r.Kind == CatalogueAttribute:
				if e := get(name); e.place == placeUnknown {
					e.place = placeAttribute
				}
			case r.Kind == CataloguePrimary:
				get(name).primary()
			}
		}
		for _, r := range rows {
			// A name that is the server's own is not made harmless: what its other functions do is known.
			if name := r.Name; r.Kind == CatalogueReads && name == foldASCII(name) && !harmful[name] && !runsText(name) {
				get(name).allow("")
			}
		}
	})
	for _, r := range rows {
		if r.Kind == CatalogueOperator {
			if v.operators == nil {
				v.operators = map[string]bool{}
			}
			v.operators[r.Name] = true
		}
	}
	v.everyName = true
	for c.addHarmful(&v, rows) { // a view can stand over a view
	}
	c.vocab.Store(v)
	if c.answers != nil {
		c.answers.forget()
	}
}

// runsText names functions of extensions that are declared stable and run whatever query they are given.
func runsText(name string) bool {
	return strings.HasPrefix(name, "crosstab") || name == "connectby" || name == "xpath_table" || strings.HasPrefix(name, "dblink")
}

// fingerprint tells lists of rows apart, whatever their order. It is never 0.
func fingerprint(rows []CatalogueRow) uint64 {
	sum := uint64(len(rows))
	for _, r := range rows {
		sum += maphash.Comparable(seed, r)
	}
	return max(sum, 1)
}

// addHarmful adds the views and expressions that are no reads by what v knows so far. It reports whether there were any.
func (c *Classifier) addHarmful(v **vocabulary, rows []CatalogueRow) bool {
	var found []string
	for _, r := range rows {
		text := r.Text
		switch r.Kind {
		case CatalogueView:
		case CatalogueExpression:
			text = "SELECT " + text
		default:
			continue
		}
		name := foldASCII(r.Name)
		if (*v).words.find(name, 0, len(name)).place != placeNode && !c.harmless(*v, text) {
			found = append(found, name)
		}
	}
	if found == nil {
		return false
	}
	slices.Sort(found)
	*v = (*v).with(func(get func(string) *entry) {
		for _, name := range slices.Compact(found) {
			get(name).primary()
		}
	})
	return true
}

func (c *Classifier) harmless(v *vocabulary, text string) bool {
	return strings.TrimSpace(text) == "SELECT" || classify(c.lang.dialect, v, c.server, text).Class == Read
}

// primary makes what has this name something that can only be read on the primary.
func (e *entry) primary() {
	if e.place != placeSession {
		e.place = placeNode
	}
}

// foldASCII folds the case of ASCII letters, as the servers fold that of unquoted names.
func foldASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
