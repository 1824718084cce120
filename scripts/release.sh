#!/usr/bin/env bash
# Makes a release from the tag of this version: the sources for pip, wheels, Debian packages, the documentation, a container image, a
# bill of materials (CycloneDX) and checksums. Publishes nothing: .github/workflows/release.yml does, and calls this.
#   scripts/release.sh [--dry-run] [FOLDER]          (default: build/release-VERSION; it must not exist)
# The tag is vVERSION, with the version of CMakeLists.txt, which CHANGELOG.md must have; it must be what is checked out, and nothing
# may be changed.
# --dry-run: the same of what is committed, without a tag. What this machine cannot make is left out, and named at the end.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

dry=
if [[ ${1:-} == --dry-run ]]; then
  dry=yes
  shift
fi
if (($# > 1)) || [[ ${1:-} == -* ]]; then die "usage: scripts/release.sh [--dry-run] [FOLDER]"; fi
cd "$root"
version=$(sed -n 's/^project(xoe VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
target=$(realpath -m "${1:-build/release-$version}")
tag=v$version
left_out=()

[[ -z $(git status --porcelain) ]] || die "commit first: a release is made of what is committed"
if [[ -z $dry ]]; then
  tagged=$(git rev-parse -q --verify "refs/tags/$tag^{commit}") || die "there is no tag $tag, for the version of CMakeLists.txt: git tag -s $tag"
  [[ $tagged == "$(git rev-parse HEAD)" ]] || die "the tag $tag is not what is checked out: git checkout $tag"
fi
grep -q "^## \[$version\]" CHANGELOG.md || die "CHANGELOG.md has no section [$version]"
[[ ! -e $target ]] || die "$target is there already"

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# lacks WHAT WHY: this machine cannot make it. Only a dry run goes on.
lacks() {
  [[ -n $dry ]] || die "$1: $2"
  left_out+=("$1: $2")
}

make_wheels() {
  local reason
  say "wheels"
  if reason=$(scripts/wheel.sh --all --check 2>&1); then
    scripts/wheel.sh --all "$target"
    return
  fi
  lacks "wheels of all Pythons" "${reason#error: }"
  scripts/wheel.sh "$target"
}

# What `pip install` takes where no wheel fits.
make_sources() {
  say "sources"
  local python=$root/build/peers/wheel/bin/python needed
  mapfile -t needed < <(cd packages && "$python" -c 'import build_backend; print(*build_backend.get_requires_for_build_sdist(), sep="\n")')
  run_step "tools of the sources" "$python" -m pip install --disable-pip-version-check "${needed[@]}"
  run_step "sources for pip" "$python" -c 'import sys; sys.path.insert(0, "packages"); import build_backend; build_backend.build_sdist(sys.argv[1])' "$target"
}

make_debian_packages() {
  say "Debian packages"
  scripts/setup.sh release
  run_step "Debian packages" cpack --config build/release/CPackConfig.cmake -G DEB -B "$target/debian"
  mv "$target"/debian/*.deb "$target"
  rm -rf "$target/debian"
}

make_site() {
  say "documentation"
  scripts/docs.sh
  tar -C build/docs --sort=name --owner=0 --group=0 --mtime="@$SOURCE_DATE_EPOCH" -cf - html | gzip -9n >"$target/xoe-$version-docs.tar.gz"
}

# Of the wheels that were made above.
make_image() {
  if ! docker info >/dev/null 2>&1; then
    lacks "image" "no Docker daemon answers here"
    return
  fi
  say "image"
  mkdir -p build/wheels
  cp "$target"/*.whl build/wheels/
  run_step "image" docker build -f deploy/docker/Dockerfile -t "xoe:$version" .
  docker save "xoe:$version" | gzip -9n >"$target/xoe-$version-image.tar.gz"
}

mkdir -p "$target"
make_wheels
make_sources
make_debian_packages
make_site
make_image
cp build/wheel-metadata/sboms/xoe.cdx.json "$target/xoe-$version.cdx.json"
(cd "$target" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\0' | sort -z | xargs -0 sha256sum -- >SHA256SUMS)
say "made $target: $(find "$target" -type f -printf '%f\n' | sort | tr '\n' ' ')"
if ((${#left_out[@]} > 0)); then printf 'xoe: left out: %s\n' "${left_out[@]}"; fi
