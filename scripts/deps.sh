#!/usr/bin/env bash
# Makes sure that the database servers which the tests start are installed. Does nothing when they are; installs them
# as root on Debian and Ubuntu; says what to install everywhere else. Never starts a service. MySQL is the one that may be
# missing: the tests are left out then, and the last line of make test says so.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
exec </dev/null

# has_postgres looks where the tests do.
has_postgres() {
	local dir version
	if [ -n "${READROUTE_PGBIN:-}" ]; then
		[ -x "$READROUTE_PGBIN/initdb" ]
		return
	fi
	for dir in /usr/lib/postgresql/*/bin; do
		version=${dir%/bin}
		version=${version##*/}
		[ -x "$dir/initdb" ] && [ "$version" -ge 14 ] && return
	done
	has initdb
}

has() { PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null; }

# look fills missing (for people) and packages (for apt).
look() {
	missing=() packages=()
	if ! has_postgres; then
		missing+=("PostgreSQL 14 or newer (initdb, postgres)${READROUTE_PGBIN:+ in READROUTE_PGBIN=$READROUTE_PGBIN}")
		packages+=(postgresql)
	fi
	if ! has mariadbd || ! has mariadb-install-db; then
		missing+=("MariaDB server (mariadbd, mariadb-install-db)")
		packages+=(mariadb-server-core)
	fi
	if ! has mariadb; then
		missing+=("MariaDB client (mariadb)")
		packages+=(mariadb-client-core)
	fi
	if ! has pgbouncer; then
		missing+=("PgBouncer (pgbouncer)")
		packages+=(pgbouncer)
	fi
	# Debian's redis-tools has the server under the name of its checker.
	if ! has redis-server && ! has redis-check-rdb && ! has valkey-server; then
		missing+=("Redis (redis-server)")
		packages+=(redis-tools)
	fi
	[ ${#missing[@]} -eq 0 ]
}

give_up() {
	printf 'deps: missing: %s\n' "${missing[@]}" >&2
	echo "deps: $1" >&2
	exit 1
}

# has_mysql looks where the tests do.
has_mysql() {
	local program
	[ -z "${READROUTE_MYSQL:-}" ] || return 0
	for program in /var/cache/readroute/mysql/usr/sbin/mysqld "$(PATH="$PATH:/usr/sbin" command -v mysqld || true)"; do
		if [ -x "$program" ] && ! "$program" --no-defaults --version 2>/dev/null | grep -q MariaDB; then
			return 0
		fi
	done
	return 1
}

get_mysql() {
	local problem
	has_mysql && return
	if ! problem=$(timeout 180 "$(dirname "$0")/mysql.sh" 2>&1); then
		echo "deps: MySQL cannot be had here, its tests will be left out: ${problem:-it took too long}" >&2
	fi
}

if look; then
	get_mysql
	exit 0
fi
[ -z "${READROUTE_PGBIN:-}" ] || has_postgres || give_up "correct READROUTE_PGBIN or unset it"
has apt-get || give_up "install these with the system's package manager, then run make again"
[ "$(id -u)" = 0 ] || give_up "run as root: apt-get install --no-install-recommends ${packages[*]}"

# Packages ask this file whether they may start their service.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	trap 'rm -f $policy' EXIT
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
fi
apt-get -q update || echo "deps: apt-get update failed, going on with the lists that there are" >&2
# Older releases have the MariaDB version in the package's name.
for i in "${!packages[@]}"; do
	if ! apt-cache show "${packages[i]}" >/dev/null 2>&1; then
		versioned=$(apt-cache pkgnames "${packages[i]}-" | sort -V | tail -n 1)
		packages[i]=${versioned:-${packages[i]}}
	fi
done
apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${packages[@]}"
look || give_up "installing ${packages[*]} did not help"
get_mysql
