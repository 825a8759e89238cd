// Package readroute is a routed database/sql pool: it reads what it wrote, from a replica.
package readroute
