#!/bin/sh
# Runs pgx's own stdlib tests on the bare driver and through the routed pool,
# with -race, and fails when a test does not give the same result in both.
# Arguments go to the program: -go local,go1.27.3 -run TestName -v
set -eu
cd "$(dirname "$0")/.."
exec go run ./internal/compat/pgx "$@"
