#!/bin/bash
# Everything that `make test` runs: vet and the tests of every module with -race,
# and other libraries' own tests through the routed pool. The root module's tests
# wait for servers most of the time, so the rest is built and run beside them. What
# has failed keeps nothing else from being run.
set -euo pipefail
cd "$(dirname "$0")/.."
export READROUTE_REQUIRE_SERVERS=1 GOWORK=off

say() { printf '== %s (after %d s)\n' "$*" "$SECONDS"; }

module() {
	say "$1: go vet -race ./... && go test -race -timeout 45m ./..."
	(cd "$1" && go vet -race ./... && go test -race -timeout 45m ./...)
}

# With -race a million operations take four minutes of a processor, and half a minute without.
simulation() {
	say "make sim N=1000000; go test -race runs 60,000 of them as well"
	make --no-print-directory sim N=1000000 || failed=1
	say "guards switched off: those that are missed within seconds; all of them with make mutations"
	go run ./internal/mutation -quick || failed=1
}

# With -race a read costs several times as much.
chaos() {
	say "make chaos; go test -race breaks the clusters for a few seconds as well"
	make --no-print-directory chaos
}

compat() {
	say "the suites of pgx, sqlx and go-sql-driver: the whole of them with make compat-pgx, compat-sqlx, compat-mysql"
	go run ./internal/compat/pgx -go local || failed=1
	go run ./internal/compat/sqlx || failed=1
	go run ./internal/compat/mysql -go local -pool process || failed=1
}

others() {
	local dir failed=0
	simulation
	for dir in $(find . -name go.mod -not -path '*/testdata/*' -not -path ./go.mod -exec dirname {} \; | sort); do
		module "$dir" || failed=1
	done
	compat
	return "$failed"
}

# Some readers of a run have its last lines only, and a failed test's own words stand before long logs of servers.
failures() {
	awk '/^== / { part = $0; left = 0; next }
		/log of [a-z0-9]+ \(port |^ok |^\? / { left = 0 }
		/--- FAIL: |Error Trace:|^panic: |^fatal error: |WARNING: DATA RACE/ { left = 10 }
		/^FAIL\t|^GREEN / { left = 1 }
		/^exit status / { if (part) print part; part = ""; for (i = 8; i > 0; i--) print last[(NR - i) % 8]; left = 1 }
		left-- > 0 { if (part) print part; part = ""; print substr($0, 1, 200) }
		{ last[NR % 8] = substr($0, 1, 200) }' "$@" | tail -n 80
	echo "failed: $(sed -n 's/^ *--- FAIL: \([^ ]*\).*/\1/p; s/^FAIL\t\([^ \t]*\).*/\1/p; s/^GREEN  *[^ ]*  \(.*\): .*/not missed: \1,/p' "$@" | tr '\n' ' ')"
}

logs=$(mktemp -d)
trap 'kill "$beside" 2>/dev/null || true; rm -rf "$logs"' EXIT
others >"$logs/others" 2>&1 &
beside=$!
failed=0
{ module . || exit 1; } 2>&1 | tee "$logs/root" || failed=1
{ chaos || exit 1; } 2>&1 | tee "$logs/chaos" || failed=1
wait "$beside" || failed=1
cat "$logs/others"
if [ "$failed" != 0 ]; then
	say "what failed, once more"
	failures "$logs/root" "$logs/chaos" "$logs/others"
fi
say "end"
exit $failed
