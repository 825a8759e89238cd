// Package engine finds out of which kind of servers a cluster is made, by asking them: a data source name does not tell.
package engine
