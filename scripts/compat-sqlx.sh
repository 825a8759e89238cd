#!/bin/sh
# Runs sqlx's own tests on the bare driver and through the routed pool, with
# -race, and fails when a test does not give the same result in both.
# Arguments go to the program: -run TestName -v
set -eu
cd "$(dirname "$0")/.."
exec go run ./internal/compat/sqlx "$@"
