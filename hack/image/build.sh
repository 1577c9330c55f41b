#!/usr/bin/env bash
# Builds the image where no registry is at hand: both bases are made of Debian packages (mmdebstrap), the Dockerfile is built by
# buildah. Needs root, and on Debian: apt-get install --no-install-recommends buildah crun mmdebstrap
#
#   hack/image/build.sh [FILE]     writes the image as an OCI archive (default: build/gpu-dra.tar), named gpu-dra:<version>
#
# Made again from the same commit and the same packages, the image has the same layers: times are those of the commit
# (the bases have none, so that a commit does not make the layers of the wheels anew).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

archive=${1:-build/gpu-dra.tar}
suite=${DEBIAN_SUITE:-bookworm}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpu-dra-image
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml | head -1)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH

say() { printf 'image: %s\n' "$*" >&2; }
for tool in buildah mmdebstrap; do
    command -v "$tool" >/dev/null || { say "$tool is needed: apt-get install --no-install-recommends buildah crun mmdebstrap"; exit 1; }
done

make_base() { # NAME VARIANT PACKAGES: a base image of Debian packages, made once
    local name=$1 variant=$2 packages=$3 tar
    tar=$cache/$name-$suite.tar
    if [ ! -e "$tar" ]; then
        say "making the base $name of Debian $suite"
        mkdir -p "$cache"
        mmdebstrap --quiet --variant="$variant" --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
            --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
            --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
            --include="$packages" "$suite" "$tar.part.tar" >/dev/null
        mv "$tar.part.tar" "$tar"
    fi
    local container
    container=$(buildah from scratch)
    buildah add --quiet "$container" "$tar" / >/dev/null
    buildah commit --quiet --rm --timestamp 0 "$container" "localhost/gpu-dra-$name" >/dev/null
}

export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=${STORAGE_DRIVER:-vfs}
make_base build minbase python3,python3-pip
make_base base extract base-files,libc6,libstdc++6,zlib1g,tzdata,netbase,python3-minimal,python3.11,libpython3.11-stdlib

# A machine behind a proxy has certificates of its own; a build that may not use them cannot fetch a wheel.
mounts=()
[ -e /etc/ssl/certs/ca-certificates.crt ] && mounts+=(--volume /etc/ssl/certs:/etc/ssl/certs:ro)
[ -e /etc/pip.conf ] && mounts+=(--volume /etc/pip.conf:/etc/pip.conf:ro)

say "building gpu-dra:$version"
buildah build --quiet --layers --timestamp "$SOURCE_DATE_EPOCH" "${mounts[@]}" \
    --build-arg BUILD_BASE=localhost/gpu-dra-build --build-arg BASE=localhost/gpu-dra-base \
    --tag "docker.io/library/gpu-dra:$version" . >/dev/null
mkdir -p "$(dirname "$archive")"
rm -f "$archive"
buildah push --quiet "docker.io/library/gpu-dra:$version" "oci-archive:$archive:docker.io/library/gpu-dra:$version"
say "$archive: $(du -h "$archive" | cut -f1), gpu-dra:$version"
