// Package vconn is the virtual connection: what database/sql pools for the routed *sql.DB.
//
// A Conn has no socket. One checkout of it (from ResetSession, or Connect, to IsValid or Close) is one logical user of a
// connection. It takes at most one physical connection of a replica and at most one of the primary from the nodes' own
// pools, in that order and never back, keeps them until the checkout ends, and hands out the native driver's own Rows.
package vconn
