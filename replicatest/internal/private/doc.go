// Package private makes fleets of private servers that internal/dbtest starts.
package private
