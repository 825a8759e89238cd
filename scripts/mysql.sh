#!/usr/bin/env bash
# Unpacks a MySQL server into a folder of its own, where the tests look for it. MariaDB and MySQL cannot be installed side
# by side, and Debian has MySQL in unstable only: so nothing is installed. The packages and the libraries they need are
# downloaded, unpacked, and the server is told to use these libraries. Needs root, apt, patchelf. About 15 s.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
exec </dev/null
target=/var/cache/readroute/mysql
[ -x $target/usr/sbin/mysqld ] && exit 0

give_up() {
	echo "$1" >&2
	exit 1
}

[ "$(id -u)" = 0 ] || give_up "not run as root"
[ -r /etc/os-release ] && . /etc/os-release
mirror=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 2>/dev/null | awk '$2 !~ /security/ && ($1 == "Debian" || $1 == "Ubuntu") {print $2; exit}')
[ -n "$mirror" ] || give_up "no package mirror of Debian or Ubuntu is set up"
case ${ID:-} in
debian) suite=sid component=main keyring=/usr/share/keyrings/debian-archive-keyring.gpg ;;
ubuntu) suite=$VERSION_CODENAME component=main keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg ;;
*) give_up "neither Debian nor Ubuntu" ;;
esac
command -v patchelf >/dev/null || apt-get -q -o DPkg::Lock::Timeout=120 install -y --no-install-recommends patchelf >/dev/null 2>&1 ||
	give_up "patchelf cannot be installed"

mkdir -p /var/cache/readroute
root=$(mktemp -d /var/cache/readroute/mysql.XXXXXX)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
apt=$root/.apt
mkdir -p "$apt"/state/lists/partial "$apt"/cache/archives/partial "$apt"/debs
echo "deb [signed-by=$keyring] $mirror $suite $component" >"$apt/sources.list"
# An apt of its own: the system's lists and packages are neither used nor changed.
options=(
	-q -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null
	-o Dir::State="$apt/state" -o Dir::State::status=/dev/null -o Dir::Cache="$apt/cache" -o APT::Install-Recommends=false
	-o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::http::Timeout=15 -o Acquire::Retries=1
	-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false
)
apt-get "${options[@]}" update >"$apt/log" 2>&1 || give_up "$(tail -n 1 "$apt/log")"
server=$(apt-cache "${options[@]}" pkgnames mysql-server-core | grep -Ex 'mysql-server-core(-[0-9.]+)?' | sort -V | tail -n 1 || true)
[ -n "$server" ] || give_up "$suite has no mysql-server-core"

# The server, and of what it needs the libraries only: everything else is for the installation of a service.
wanted=" $server " todo=("$server")
while [ ${#todo[@]} -gt 0 ]; do
	next=()
	for library in $(apt-cache "${options[@]}" depends --no-recommends --no-suggests --no-breaks --no-conflicts --no-replaces --no-enhances "${todo[@]}" |
		sed -n 's/^ *|\{0,1\}\(Pre\)\{0,1\}Depends: \(lib[^ :<]*\|zlib1g\).*/\2/p' | sort -u); do
		case $library in libperl* | libdebconf*) continue ;; esac
		case $wanted in *" $library "*) ;; *) wanted="$wanted$library " next+=("$library") ;; esac
	done
	todo=("${next[@]}")
done
(cd "$apt/debs" && apt-get "${options[@]}" download $wanted >>"$apt/log" 2>&1) || give_up "$(tail -n 1 "$apt/log")"

# /lib is a part of /usr in newer packages, and beside it in older ones.
for dir in lib lib64 bin sbin; do
	mkdir -p "$root/usr/$dir"
	ln -s "usr/$dir" "$root/$dir"
done
for package in "$apt"/debs/*.deb; do
	dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --keep-directory-symlink --exclude=./usr/share/doc --exclude=./usr/share/man
done
libraries=$root/usr/lib/$(dpkg-architecture -q DEB_HOST_MULTIARCH 2>/dev/null || echo "$(uname -m)-linux-gnu")
loader=$(echo "$root"/usr/lib*/ld-linux-*.so.* "$libraries"/ld-linux-*.so.* | tr ' ' '\n' | while read -r f; do [ -e "$f" ] && echo "$f" && break; done)
[ -n "$loader" ] || give_up "the packages have no loader"
final() { echo "$target${1#"$root"}"; }
patchelf --set-interpreter "$(final "$loader")" --force-rpath --set-rpath "$(final "$libraries"):$target/usr/lib/mysql/private" "$root/usr/sbin/mysqld"
rm -rf "$apt" $target
mv "$root" $target
trap - EXIT
$target/usr/sbin/mysqld --no-defaults --version >/dev/null || {
	rm -rf $target
	give_up "the unpacked server does not run"
}
