#!/usr/bin/env bash
# Makes a release from the tag of this version: wheels, the sources, a bill of materials (CycloneDX) and checksums.
#   scripts/release.sh [FOLDER]          (default: build/release-VERSION; it must not exist)
# The tag is vVERSION, with the version of CMakeLists.txt, which CHANGELOG.md must have; it must be what is checked out, and nothing
# may be changed. Nothing is published.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if (($# > 1)) || [[ ${1:-} == -* ]]; then die "usage: scripts/release.sh [FOLDER]"; fi
cd "$root"
version=$(sed -n 's/^project(xoe VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
target=$(realpath -m "${1:-build/release-$version}")
tag=v$version

[[ -z $(git status --porcelain) ]] || die "commit first: a release is made of what is committed"
tagged=$(git rev-parse -q --verify "refs/tags/$tag^{commit}") || die "there is no tag $tag, for the version of CMakeLists.txt: git tag -a $tag"
[[ $tagged == "$(git rev-parse HEAD)" ]] || die "the tag $tag is not what is checked out: git checkout $tag"
grep -q "^## \[$version\]" CHANGELOG.md || die "CHANGELOG.md has no section [$version]"
[[ ! -e $target ]] || die "$target is there already"

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
mkdir -p "$target"
say "sources"
git archive --format=tar --prefix="xoe-$version/" HEAD | gzip -9n >"$target/xoe-$version.tar.gz"
scripts/wheel.sh --all "$target"
cp build/wheel-metadata/sboms/xoe.cdx.json "$target/xoe-$version.cdx.json"
(cd "$target" && sha256sum -- *.whl *.tar.gz *.json >SHA256SUMS)
say "made $target: $(find "$target" -type f -printf '%f ' | sort)"
