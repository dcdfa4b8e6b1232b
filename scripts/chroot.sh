# Functions for scripts that try gpumux on a minimal Debian system in a chroot. Sourced; the caller
# defines die().
#
# Packages come from this machine's apt sources, which are read now and not stored.
# shellcheck shell=bash

chroot_suite=bookworm

# debian_sources DIRECTORY: writes host.sources and host.list, this machine's apt sources for the
# Debian archive and our suite, and host.conf, its way of fetching them.
debian_sources() {
    awk -v suite=$chroot_suite '
        function flush() {
            if (paragraph ~ ("\nSuites:[^\n]*[ \t]" suite)) printf "%s\n", paragraph
            paragraph = ""
        }
        FNR == 1 { flush() }
        /^[ \t]*$/ { flush(); next }
        !/^#/ { paragraph = paragraph "\n" $0 }
        END { flush() }' /dev/null $(ls /etc/apt/sources.list.d/*.sources 2> /dev/null) \
            > "$1/host.sources"
    cat /dev/null $(ls /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2> /dev/null) \
        | grep -E "^deb .*[] ][^ ]+ $chroot_suite" > "$1/host.list" || true
    apt-config dump | grep -E '^Acquire::(http|https)' > "$1/host.conf" || true
}

# make_chroot ROOT PACKAGES: creates a minimal system with these packages (a,b,c), in which apt
# finds more. Also writes to the parent directory.
make_chroot() {
    local root=$1 packages=$2 top=${1%/*} sources=() file
    debian_sources "$top"
    for file in "$top/host.sources" "$top/host.list"; do
        [ ! -s "$file" ] || sources+=("$file")
    done
    [ ${#sources[@]} -gt 0 ] || die "this machine has no apt source for $chroot_suite"
    mmdebstrap --quiet --variant=minbase --include="$packages" --aptopt="$top/host.conf" \
        $chroot_suite "$root" "${sources[@]}"
    # This machine may trust certificates of its own.
    for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
        [ ! -e $file ] || [ ! -d "$root${file%/*}" ] || cp -L $file "$root$file"
    done
}

# in_namespaces COMMAND...: runs the command with its own mounts and processes, which end with it.
in_namespaces() {
    unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$@"
}

# mount_chroot ROOT: mounts the usual file systems, in the namespaces of in_namespaces.
mount_chroot() {
    local root=$1 node
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    for node in null zero full random urandom tty; do
        : > "$root/dev/$node"
        mount --bind "/dev/$node" "$root/dev/$node"
    done
    mkdir "$root/dev/pts" "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
}

# in_chroot ROOT COMMAND...: runs the command with a plain environment.
in_chroot() {
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ LANG=C.UTF-8 TERM="${TERM:-dumb}" chroot "$@"
}
