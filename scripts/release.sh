#!/usr/bin/env bash
# Makes a release from the tag of this version: the sources for pip, wheels, conda and Debian packages, the documentation, bills of materials
# (CycloneDX) and checksums. Publishes nothing: .github/workflows/release.yml does, and calls this.
#   scripts/release.sh [--dry-run] [FOLDER]          (default: build/release-VERSION; it must not exist)
#   scripts/release.sh --image FOLDER                the container image xoe:VERSION, of the wheels in FOLDER
# The tag is vVERSION, with the version of CMakeLists.txt, to which CHANGELOG.md must give a date; it must be what is checked out, and
# nothing may be changed.
# --dry-run: the same and the image, of what is committed, without a tag and a date. Files that this machine cannot make are left out,
# and named at the end.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage="usage: scripts/release.sh [--dry-run] [FOLDER], or scripts/release.sh --image FOLDER"
dry=
image=
case ${1:-} in
  --dry-run) dry=yes && shift ;;
  --image) image=yes && shift ;;
esac
if (($# > 1)) || [[ ${1:-} == -* || (-n $image && $# == 0) ]]; then die "$usage"; fi
cd "$root"
version=$(sed -n 's/^project(xoe VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
target=$(realpath -m "${1:-build/release-$version}")
tag=v$version
left_out=()

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# lacks WHAT WHY: this machine cannot make it. Only a dry run goes on.
lacks() {
  [[ -n $dry ]] || die "$1: $2"
  left_out+=("$1: $2")
}

# make_wheels PROCESSOR [OPTION]: with their bill of materials.
make_wheels() {
  local processor=$1 options=("${@:2}") reason
  say "wheels for $processor"
  if ! reason=$(scripts/wheel.sh "${options[@]}" --check 2>&1); then
    lacks "wheels for $processor" "${reason#error: }"
    return
  fi
  if reason=$(scripts/wheel.sh "${options[@]}" --all --check 2>&1); then
    options+=(--all)
  else
    lacks "wheels of all Pythons for $processor" "${reason#error: }"
  fi
  scripts/wheel.sh "${options[@]}" "$target"
  cp "build/wheel-metadata-$processor/sboms/xoe.cdx.json" "$target/xoe-$version-$processor.cdx.json"
}

# `pip install` takes them where no wheel fits.
make_sources() {
  say "sources"
  local python=$root/build/peers/wheel/bin/python needed
  mapfile -t needed < <(cd packages && "$python" -c 'import build_backend; print(*build_backend.get_requires_for_build_sdist(), sep="\n")')
  run_step "tools of the sources" "$python" -m pip install --disable-pip-version-check "${needed[@]}"
  run_step "sources for pip" "$python" -c 'import sys; sys.path.insert(0, "packages"); import build_backend; build_backend.build_sdist(sys.argv[1])' "$target"
}

make_conda_packages() {
  say "conda packages"
  local made=$root/build/release-conda reason
  if ! reason=$(scripts/conda.sh --check 2>&1); then
    lacks "conda packages" "${reason#error: }"
    return
  fi
  rm -rf "$made"
  scripts/conda.sh "$target" "$made"
  mv "$made"/linux-64/xoe-*.conda "$target"
  rm -rf "$made"
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

# make_image FOLDER: of the wheels there. Debian 12 has Python 3.11.
make_image() {
  say "image"
  if ! compgen -G "$1/xoe-$version-cp311-*_x86_64.whl" >/dev/null; then
    lacks "image" "$1 has no wheel of this version for Python 3.11"
    return
  fi
  rm -rf build/wheels
  mkdir -p build/wheels
  cp "$1"/*.whl build/wheels/
  run_step "image" docker build -f deploy/docker/Dockerfile -t "xoe:$version" .
}

if [[ -n $image ]]; then
  make_image "$target"
  exit
fi
[[ -z $(git status --porcelain) ]] || die "commit first: a release is made of what is committed"
if [[ -z $dry ]]; then
  tagged=$(git rev-parse -q --verify "refs/tags/$tag^{commit}") || die "there is no tag $tag, for the version of CMakeLists.txt: git tag -s $tag"
  [[ $tagged == "$(git rev-parse HEAD)" ]] || die "the tag $tag is not what is checked out: git checkout $tag"
  grep -Eq "^## \[$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md || die "CHANGELOG.md has no section [$version] with a date"
fi
[[ ! -e $target ]] || die "$target is there already"

mkdir -p "$target"
make_wheels x86_64
make_wheels aarch64 --aarch64
make_sources
make_conda_packages
make_debian_packages
make_site
sums=$(cd "$target" && find . -maxdepth 1 -type f -printf '%P\0' | sort -z | xargs -0 sha256sum --)
echo "$sums" >"$target/SHA256SUMS"
say "made $target: $(find "$target" -type f -printf '%f\n' | sort | tr '\n' ' ')"
if [[ -n $dry ]]; then
  if docker info >/dev/null 2>&1; then make_image "$target"; else lacks "image" "no Docker daemon answers here"; fi
fi
if ((${#left_out[@]} > 0)); then printf 'xoe: left out: %s\n' "${left_out[@]}"; fi
