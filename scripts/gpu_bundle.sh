#!/usr/bin/env bash
# Packs what a machine with a GPU, but without a network, needs to build, test and measure Xoe: the sources and tests of HEAD, the headers
# and libraries of the Debian packages that the build uses, a wheel of the Python package for Python 3.12 and later, and wheels
# of Keras.
#   scripts/gpu_bundle.sh [--no-wheel] [FILE]        (default: build/xoe-gpu.tar.gz, at most 60 MiB)
#   scripts/gpu_bundle.sh --wheel-only [FILE]        (default: build/xoe-gpu-wheel.tar.gz): without sources and packages, for the parts
#                                                    of the check that need no build
# There: tar xf xoe-gpu.tar.gz && xoe-gpu/scripts/gpu_check.sh        (docs/gpu.md)
# XOE_PYTHON=/path/to/python3.12: the Python that makes the wheel.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage="usage: scripts/gpu_bundle.sh [--no-wheel | --wheel-only] [FILE]"
wants_wheel=yes
wants_sources=yes
while [[ ${1:-} == -* ]]; do
  case $1 in
    --no-wheel) wants_wheel= ;;
    --wheel-only) wants_sources= ;;
    *) die "$usage" ;;
  esac
  shift
done
if (($# > 1)); then die "$usage"; fi
most_mib=60
default=$root/build/xoe-gpu.tar.gz
if [[ -z $wants_sources ]]; then
  default=$root/build/xoe-gpu-wheel.tar.gz
fi
bundle=$(realpath -m "${1:-$default}")

# What the parts run that need no build.
drivers=(scripts/gpu_check.sh measure/gpu frameworks/bench/python/worker.py frameworks/bench/python/keep.py train/bench/training/torch_worker.py
  core/testing/peer_python.py frameworks/tests/python/ranks.py frameworks/tests/python/cuda_test.py frameworks/tests/python/cuda_kill_test.py frameworks/tests/python/gpu_test.py
  examples/jax/mnist.py examples/keras/mnist.py)

# The files of the packages below, without documents. Static libraries are for the static launcher; some of them (libpng) could not
# become part of libxoe.so.
package_files() {
  local packages file
  # Between hosts there is nothing to do on one machine, nothing is compared with Google Benchmark, and there is no pool.
  mapfile -t packages < <(listed_packages build | grep -E '^lib.*-dev$|^(nlohmann-json3|zlib1g)-dev$' |
    grep -vE '^lib(benchmark|cpp-httplib|curl4-openssl|gloo|mpich|openmpi|pugixml|sqlite3|ssl)-dev$')
  dpkg-query -L "${packages[@]}" | grep -E '^/usr/(include|lib|share/cmake)/' | sort -u | while read -r file; do
    if [[ -d $file && ! -L $file ]]; then continue; fi
    if [[ $file == *.so ]]; then printf '%s\n' "$file"*; else echo "$file"; fi
  done
}

copy_packages() {
  local debian=$folder/build/gpu/debian link target
  mkdir -p "$debian"
  package_files | tar -c -C / --files-from <(sed "s,^/,,") | tar -x -C "$debian"
  # Links must not lead to what the other machine has instead (libz.so).
  find "$debian" -lname '/*' -printf '%p\t%l\n' | while IFS=$'\t' read -r link target; do
    ln -sf "${target##*/}" "$link"
  done
}

# One wheel serves every Python from 3.12 on, and any of these can make it.
make_wheel() {
  local python=${XOE_PYTHON:-}
  if [[ -z $python ]]; then
    python=$(find_python 3.12 3.13 3.14) ||
      die "no Python from 3.12 on with its headers here: XOE_PYTHON=/path/to/python3.12 names one; --no-wheel leaves the wheel out, and every part then waits for the build"
  fi
  XOE_PYTHON=$python scripts/wheel.sh "$folder/build/gpu/wheels"
  run_step "wheels of Keras" "$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: \
    --python-version 3.12 --implementation cp --abi cp312 --abi abi3 --abi none --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_17_x86_64 -d "$folder/build/gpu/wheels" -r requirements/gpu.txt
}

cd "$root"
command -v dpkg-query >/dev/null || die "this is not a Debian system: the bundle takes its headers and libraries from Debian's packages"
[[ -z $(git status --porcelain --untracked-files=no) ]] || say "only what is committed goes into the bundle"
folder=$root/build/gpu-bundle/xoe-gpu
rm -rf "$folder"
mkdir -p "$folder/build/gpu" "$(dirname "$bundle")"
git rev-parse HEAD >"$folder/build/gpu/commit"
if [[ -n $wants_sources ]]; then
  git archive HEAD | tar -x -C "$folder"
  copy_packages
else
  git archive HEAD "${drivers[@]}" | tar -x -C "$folder"
fi
if [[ -n $wants_wheel ]]; then make_wheel; fi
tar -czf "$bundle" -C "${folder%/*}" "${folder##*/}"
rm -rf "${folder%/*}"

bytes=$(stat -c %s "$bundle")
((bytes <= most_mib << 20)) || die "$bundle has $((bytes >> 20)) MiB; at most $most_mib are carried"
say "made $bundle: $((bytes >> 10)) KiB, in $SECONDS s"
