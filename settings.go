package readroute

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// The library's own connections to a node, beside its pools: one to a replica; on the primary one that watches, one that
// reads positions, and now and then one that reads the catalogue.
const (
	ownOnReplica = 1
	ownOnPrimary = 3
)

// warn tells the hook of a setting that fights the library.
func (db *DB) warn(node, format string, args ...any) {
	db.event(Event{Kind: EventSetting, Node: node, Why: fmt.Sprintf(format, args...)})
}

// warnOfConfig tells of what needs no server to be seen.
func (db *DB) warnOfConfig() {
	p := &db.config.Primary
	if n := p.MaxOpenConns; n > 0 && len(db.config.Replicas) > 0 && db.config.FallbackLimit >= n {
		db.warn(p.Name, "FallbackLimit is %d and the primary's MaxOpenConns %d: reads that fall back can keep every write waiting",
			db.config.FallbackLimit, n)
	}
}

// settings is what a node's session says of itself, as text: see the engine's SettingsSQL.
const (
	settingReplica = iota
	settingReadOnly
	settingTimeout
	settingConnections
	numSettings
)

// onSettings hears what sessions of a node are like: once, when the library first connects to it.
func (db *DB) onSettings(n *Node, row []string) {
	if len(row) != numSettings {
		return
	}
	replica := row[settingReplica] == "true"
	readOnly, timeout, remedy := db.engine.SettingNames()
	if !replica && row[settingReadOnly] == "on" {
		db.warn(n.Name, "%s is on for this user, so every write will be refused: %s", readOnly, remedy)
	}
	wait := db.config.Strategy.core(db.config.StickyWindow).Wait
	if ms, err := strconv.Atoi(row[settingTimeout]); err == nil && ms > 0 && time.Duration(ms)*time.Millisecond < wait {
		db.warn(n.Name, "%s is %d ms, shorter than the wait timeout of %v: "+
			"a read may wait for a replica for longer than it may run", timeout, ms, wait)
	}
	own := ownOnPrimary
	if replica {
		own = ownOnReplica
	}
	if limit, err := strconv.Atoi(row[settingConnections]); err == nil && limit < own+max(1, n.MaxOpenConns) {
		db.warn(n.Name, "the server lets this user have %d connections; this process alone may open %d in the node's pool and "+
			"%d of the library's own: lower MaxOpenConns, or raise the limit", limit, max(1, n.MaxOpenConns), own)
	}
}

// onCapabilities hears what a node's server does not have, or the user may not see.
func (db *DB) onCapabilities(i int, missing []string) {
	var known []string
	if p := db.capabilities[i].Swap(&missing); p != nil {
		known = *p
	}
	for _, m := range missing {
		if !slices.Contains(known, m) {
			db.warn(db.nodes[i].Name, "%s", m)
		}
	}
}
