#!/bin/sh
# Makes a chroot of a Debian suite, or adds packages to one that is there:
#
#   sh stock-chroot.sh ROOT SUITE SHARED PACKAGE...     SHARED is a folder that is seen at the same path inside
#   sh stock-chroot.sh archive                          prints where this machine's apt gets Debian from
#
# `cargo xtask clients` and `humboldt lab setup` both run this file, so that each finds what the other installed and removes none of it.
# It may be killed at any moment, and run again: a chroot is made beside its place and takes its name when it is whole.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

archive() {
    if [ -n "${DEBIAN_MIRROR:-}" ]; then
        echo "$DEBIAN_MIRROR"
    else
        cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | tr -s ' \t' '\n\n' | grep '://.*debian/*$' | head -n 1
    fi
}

# Removes a chroot that is not whole, with what is mounted in it; first of all cut off from the mounts that it shows, which stay.
discard() {
    below=$(awk -v below="$1/" 'index($2, below) == 1 { print $2 }' /proc/mounts | sort)
    for at in $below; do mount --make-private "$at"; done
    for at in $(printf '%s\n' "$below" | sort -r); do umount -l "$at"; done
    rm -rf --one-file-system "$1"
}

make() {
    from=$(archive)
    if [ -z "$from" ]; then
        echo "no Debian archive in apt's sources: set DEBIAN_MIRROR" >&2
        exit 1
    fi
    if ! command -v debootstrap >/dev/null; then
        apt-get update -q
        apt-get install -y -q --no-install-recommends debootstrap
    fi
    discard "$root.new"
    debootstrap --variant=minbase --include=ca-certificates "$suite" "$root.new" "$from"
    discard "$root"
    mv "$root.new" "$root"
}

installed() {
    for package; do
        [ "$(chroot "$root" dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || return 1
    done
}

if [ "$1" = archive ]; then
    archive
    exit
fi
root=$1 suite=$2 shared=$3
shift 3
mkdir -p "$shared" "$(dirname "$root")"
# One at a time. What we start inherits the lock: an apt-get that outlives us is waited for by the next run.
exec 9>"$root.lock"
flock 9
# debootstrap removes its folder last.
if [ ! -e "$root/etc/apt/sources.list" ] || [ -e "$root/debootstrap" ]; then
    make
fi
# An archive may be a copy that was taken some time ago. No daemon is to start by itself.
echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/99novalid"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"
mkdir -p "$root$shared"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
mountpoint -q "$root/dev" || { mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev"; }
# OSDs look a file's device up there, and complain of each that they do not find.
mountpoint -q "$root/sys" || { mount --rbind /sys "$root/sys" && mount --make-rslave "$root/sys"; }
# A folder that was removed and made anew is another one than what is mounted.
[ "$shared" -ef "$root$shared" ] || mount --bind "$shared" "$root$shared"
if ! installed "$@"; then
    # What a killed run left half done comes first. Its dpkg may still be at work, without our lock: then dpkg ends with 2.
    tries=0 code=2
    while [ $code = 2 ] && [ $tries -lt 120 ]; do
        [ $tries = 0 ] || sleep 1
        code=0 tries=$((tries + 1))
        chroot "$root" dpkg --configure -a || code=$?
    done
    chroot "$root" apt-get -o DPkg::Lock::Timeout=120 update -q
    chroot "$root" apt-get -o DPkg::Lock::Timeout=120 install -f -y -q
    chroot "$root" apt-get -o DPkg::Lock::Timeout=120 install -y -q --no-install-recommends "$@"
fi
