#!/bin/bash
# fetch_debian.sh SUITE ARCHITECTURE DIR PACKAGE...: unpacks packages of any Debian release into DIR, from the
# mirror that this machine itself uses, with nothing of the machine's own packages touched. A DIR that is there
# is kept. DEBIAN_COMPONENTS names others than main. Exits with 77, after a line that says why, when the packages are not to be had.
set -u
suite=$1 architecture=$2 dir=$3
shift 3
[ ! -d "$dir" ] || exit 0
mkdir -p "$(dirname "$dir")"
exec 9> "$dir.lock"
flock 9
[ ! -d "$dir" ] || exit 0

missing() {
    echo "Debian's $suite for $architecture is not to be had here: $*"
    exit 77
}
command -v apt-get dpkg-deb > /dev/null || missing "no apt"
mirror=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' 2> /dev/null \
    | awk '$1 == "Debian" && $2 !~ /security/ { print $2; exit }')
[ -n "$mirror" ] || mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2> /dev/null \
    | grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1)
[ -n "$mirror" ] || missing "apt knows no mirror"

work=$dir.new
rm -rf "$work"
mkdir -p "$work"/{lists/partial,cache/archives/partial,packages,root}
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -f $keys ] && options="[signed-by=$keys] " || options=
echo "deb $options$mirror $suite ${DEBIAN_COMPONENTS:-main}" > "$work/sources.list"
apt=(apt-get -qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o "Dir::State::status=/dev/null"
    -o "APT::Architecture=$architecture" -o "APT::Architectures::=$architecture"
    -o Acquire::http::Timeout=20 -o Acquire::Retries=1 -o APT::Sandbox::User= -o Acquire::Languages=none)
"${apt[@]}" update > "$work/log" 2>&1 || missing "$(tail -n 1 "$work/log")"
(cd "$work/packages" && "${apt[@]}" download "$@") > "$work/log" 2>&1 || missing "$(tail -n 1 "$work/log")"
for package in "$work"/packages/*.deb; do
    dpkg-deb -x "$package" "$work/root" || missing "$package cannot be unpacked"
done
# Newer releases have everything in usr/; paths in linker scripts do not say so. No link may lead outside.
for name in lib lib64; do
    [ -e "$work/root/$name" ] || [ ! -d "$work/root/usr/$name" ] || ln -s "usr/$name" "$work/root/$name"
done
find "$work/root" -type l -lname '/*' | while IFS= read -r link; do
    ln -sfn "$dir$(readlink "$link")" "$link"
done
mv "$work/root" "$dir"
rm -rf "$work"
