# `make test` is the one test command; it needs Go, a C compiler for -race, and the servers that `make deps` installs.
MODULES := $(patsubst %/go.mod,%,$(shell find . -name go.mod -not -path '*/testdata/*' | sort))
each = @set -e; for module in $(MODULES); do echo "== $$module: $(1)"; (cd $$module && $(1)); done
# Each module is built with what its own go.mod says; go.work is there for commands that are run by hand from the root.
export GOWORK = off

N ?= 1000000
FOR ?= 30s
READS ?= 200000
SEED ?= 0
KIND ?= (Postgres|MySQL|MariaDB)

.PHONY: help deps test sim chaos mutations compat-pgx compat-sqlx compat-mysql bench bench-check lint quickstart

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install the database servers the tests start (root on Debian or Ubuntu), or say what to install
	@scripts/deps.sh

test: deps ## everything: vet and the tests of every module with -race, pgx's, sqlx's and go-sql-driver's own tests through the routed pool, and bench-check
	@scripts/test.sh
	@$(MAKE) --no-print-directory bench-check
	@go run ./internal/dbtest/untested

sim: ## the whole library against a simulated cluster that breaks all the time, judged by the checker: make sim N=5000000 operations
	go test -count 1 -timeout 0 -v -run '^TestSimulation$$' ./internal/simulation -simulation.ops $(N)

chaos: deps ## the same checker on PostgreSQL, MySQL and MariaDB clusters that break all the time: make chaos FOR=2m READS=1000000 SEED=42
	READROUTE_REQUIRE_SERVERS=1 go test -count 1 -timeout 0 -v -run '^TestChaos$(KIND)$$' . -chaos.for $(FOR) -chaos.reads $(READS) -chaos.seed $(SEED)

mutations: deps ## every guard of docs/guarantees.md switched off, one at a time: its test must go red
	go run ./internal/mutation

compat-pgx: ## pgx's own stdlib test suite, on the bare driver and through the routed pool
	@scripts/compat-pgx.sh

compat-sqlx: ## sqlx's own test suite, on the bare driver and through the routed pool
	@scripts/compat-sqlx.sh

compat-mysql: ## go-sql-driver/mysql's own test suite, on the bare driver and through every routed pool, on MySQL and on MariaDB
	@go run ./internal/compat/mysql

bench: deps ## all benchmarks
	$(call each,go test -run XXX -bench . -benchmem ./...)

bench-check: ## the cost of a routed read beside a bare one, without servers: not 15 % higher than in testdata/bench.txt; that of a token
	go test -count 1 -run '^(TestBenchCheck|TestCodec(Allocations|Cost|ForgedTokensLeaveNothing))$$' -v . -bench-check

lint: ## gofmt, go vet and, where it is installed, golangci-lint
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt: $$unformatted" >&2; exit 1; }
	$(call each,go vet ./...)
	@if command -v golangci-lint >/dev/null; then golangci-lint run ./...; else echo "golangci-lint: not installed, not run"; fi

quickstart: ## a primary and two replicas in one process: stale reads without the library, none with it
	@cd examples/quickstart && go run .
