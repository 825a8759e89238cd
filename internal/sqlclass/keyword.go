package sqlclass

// keyword is a word that the rules look at. Other keywords are kwNone.
type keyword uint8

const (
	kwNone keyword = iota
	// kwHeed is that of what is no keyword and yet more than a name or a value to the rules of a query.
	kwHeed
	kwAnalyze
	kwAs
	kwBy
	kwConnection
	kwCopy
	kwCube
	kwDelete
	kwDistinct
	kwDumpfile
	kwExplain
	kwFetch
	kwFirst
	kwFor
	kwGlobal
	kwGroup
	kwGrouping
	kwHaving
	kwInsert
	kwInto
	kwIn
	kwJoin
	kwKey
	kwLike
	kwLock
	kwMaterialized
	kwMerge
	kwNext
	kwNo
	kwNot
	kwOn
	kwOperator
	kwOrder
	kwOrdinality
	kwOutfile
	kwPartition
	kwPersist
	kwPrevious
	kwProcedure
	kwRecursive
	kwReplace
	kwRollup
	kwRows
	kwSelect
	kwSets
	kwShare
	kwSqlCalcFoundRows
	kwTable
	kwTablesample
	kwTemp
	kwTime
	kwTo
	kwTrue
	kwUpdate
	kwValue
	kwValues
	kwVerbose
	kwWindow
	kwWith
	kwZone
)

var keywords = map[string]keyword{
	"analyze": kwAnalyze, "analyse": kwAnalyze, "as": kwAs, "by": kwBy, "connection": kwConnection, "copy": kwCopy, "cube": kwCube,
	"delete": kwDelete, "distinct": kwDistinct, "dumpfile": kwDumpfile, "explain": kwExplain, "fetch": kwFetch, "first": kwFirst,
	"for": kwFor, "global": kwGlobal, "group": kwGroup, "grouping": kwGrouping, "having": kwHaving, "insert": kwInsert,
	"into": kwInto, "in": kwIn, "join": kwJoin, "key": kwKey, "like": kwLike, "ilike": kwLike, "lock": kwLock, "materialized": kwMaterialized, "merge": kwMerge,
	"next": kwNext, "no": kwNo, "not": kwNot, "on": kwOn, "operator": kwOperator, "order": kwOrder, "ordinality": kwOrdinality,
	"outfile": kwOutfile, "partition": kwPartition, "persist": kwPersist, "persist_only": kwPersist, "previous": kwPrevious,
	"procedure": kwProcedure, "recursive": kwRecursive, "replace": kwReplace, "rollup": kwRollup, "rows": kwRows,
	"select": kwSelect, "sets": kwSets, "share": kwShare, "sql_calc_found_rows": kwSqlCalcFoundRows, "table": kwTable,
	"tablesample": kwTablesample, "temp": kwTemp, "temporary": kwTemp, "time": kwTime, "to": kwTo, "true": kwTrue,
	"update": kwUpdate, "value": kwValue, "values": kwValues, "verbose": kwVerbose, "window": kwWindow, "with": kwWith,
	"zone": kwZone,
}
