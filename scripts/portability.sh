#!/usr/bin/env bash
# Builds and tests this checkout as it is on other systems. Run it as root; the root file systems stay in build/systems.
#   scripts/portability.sh debian13 [TARGET...] [-- CTEST-ARGUMENT...]   Debian 13 with its own g++; debian13-clang: with its clang
#   scripts/portability.sh arm64 [TARGET...] [-- CTEST-ARGUMENT...]      cross-compiled for ARM64; tests run under qemu-user
# Without targets all is built that needs no PyTorch; without arguments for ctest, the tests labelled unit run, on ARM64 those of
# reduce, base, bootstrap, shared memory and the engine.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

suite=trixie
[[ ${1:-} =~ ^(debian13|debian13-clang|arm64)$ ]] || die "portability.sh: say for which system: debian13, debian13-clang or arm64"
system=$1
shift
targets=()
while (($# > 0)) && [[ $1 != -- ]]; do
  targets+=("$1")
  shift
done
(($# == 0)) || shift
((EUID == 0)) || die "portability.sh: only root can make a root file system and mount this checkout there"
command -v debootstrap >/dev/null || die "portability.sh: install the Debian package debootstrap"

# Libraries of the section build, and the tools that a build needs everywhere. Not MPI: its compiler wrappers are for one processor.
tools=(build-essential ca-certificates ccache cmake git mold ninja-build pkg-config python3)
headers=(libcli11-dev libexpected-dev libprotozero-dev libtomlplusplus-dev nlohmann-json3-dev)
libraries=(libbenchmark-dev libfmt-dev libgmock-dev libgtest-dev libhwy-dev libjpeg62-turbo-dev libpng-dev libsodium-dev zlib1g-dev)
preset=debian13
compilers=()
labels=(-L unit)
if [[ $system == arm64 ]]; then
  preset=arm64
  tools+=(g++-aarch64-linux-gnu qemu-user)
  libraries=("${libraries[@]/%/:arm64}")
  labels=(-R '^(reduce|base|bootstrap|engine|shm|comm)' -L unit)
else
  libraries+=(libgloo-dev libmpich-dev mpich)
fi
if [[ $system == debian13-clang ]]; then
  tools+=(clang)
  compilers=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++)
fi
(($# == 0)) && set -- "${labels[@]}"

folder=$root/build/systems/$system
mirror() {
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | grep -m 1 '/debian/\?$'
}
install_system() {
  rm -rf "$folder"
  mkdir -p "$folder"
  debootstrap --variant=minbase "$suite" "$folder" "$(mirror)"
  [[ $system != arm64 ]] || chroot "$folder" dpkg --add-architecture arm64
  mount -t proc proc "$folder/proc"
  chroot "$folder" apt-get update
  DEBIAN_FRONTEND=noninteractive chroot "$folder" apt-get install -y --no-install-recommends "${tools[@]}" "${headers[@]}" "${libraries[@]}"
  chroot "$folder" apt-get clean
  touch "$folder/.installed"
}

# All mounts go with the process.
if [[ -z ${XOE_IN_MOUNTS:-} ]]; then
  exec env XOE_IN_MOUNTS=1 unshare --mount "$0" "$system" "${targets[@]}" -- "$@"
fi
mount --make-rprivate /
mkdir -p "$logs"
[[ -e $folder/.installed ]] || run_step "system $system" install_system
mountpoint -q "$folder/proc" || mount -t proc proc "$folder/proc"
mount --rbind /dev "$folder/dev"
mount --rbind /sys "$folder/sys"
mount -t tmpfs tmpfs "$folder/tmp"
mkdir -p "$folder/xoe" "$folder/ccache"
mount --bind "$root" "$folder/xoe"
if [[ -d ${CCACHE_DIR:-$HOME/.cache/ccache} ]]; then
  mount --bind "${CCACHE_DIR:-$HOME/.cache/ccache}" "$folder/ccache"
fi

inside() { chroot "$folder" env -C /xoe -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 CCACHE_DIR=/ccache "$@"; }
run_step "configure $system" inside cmake --preset "$preset" -B "build/$system" "${compilers[@]}"
run_step "build $system" inside cmake --build "build/$system" ${targets[0]:+--target} "${targets[@]}" -- -k 0
inside ctest --test-dir "build/$system" --output-on-failure "$@"
