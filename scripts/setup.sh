#!/usr/bin/env bash
# Prepares this checkout: Debian packages, the Python environment .venv, configure, build. Fast when nothing is missing.
#   scripts/setup.sh [--with bench|docs|kubernetes|lint|net|page|r|spark|wheel|wheel-aarch64]... [--no-python] [--configure] [PRESET[:TARGET,...]...]
# Without targets a preset is built whole, its tests included; with --configure nothing is built. A build folder that begins here
# compiles several files at once (XOE_UNITY): quick from nothing, slower after an edit; `cmake build/PRESET -DXOE_UNITY=OFF` ends that.
# XOE_PYTHON=/path/to/python3 chooses the Python that .venv is made from.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

sections=(build)
presets=()
want_python=yes
want_build=yes
while (($# > 0)); do
  case $1 in
    --with)
      [[ ${2:-} =~ ^(bench|docs|kubernetes|lint|net|page|r|spark|wheel|wheel-aarch64)$ ]] || die "setup.sh: --with takes bench, docs, kubernetes, lint, net, page, r, spark, wheel or wheel-aarch64"
      sections+=("$2")
      shift
      ;;
    --no-python) want_python=no ;;
    --configure) want_build=no ;;
    -*) die "setup.sh: unknown option $1" ;;
    *) presets+=("$1") ;;
  esac
  shift
done

setup_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "this is not a Debian system: the packages of packages.txt are not checked"
    return
  fi
  local wanted installed missing
  mapfile -t wanted < <(listed_packages "${sections[@]}")
  # dpkg-query fails when it does not know one of them: exactly the case that is looked for.
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true)
  mapfile -t missing < <(comm -23 <(printf '%s\n' "${wanted[@]}" | sort -u) \
    <(sed -n 's/^installed //p' <<<"$installed" | sort -u))
  if ((${#missing[@]} == 0)); then
    return
  fi
  local install="apt-get install -y --no-install-recommends ${missing[*]}"
  if ((EUID != 0)); then
    die "Debian packages are missing; run this as root, then try again:
  apt-get update && $install"
  fi
  say "installing the missing Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  run_step "package lists" apt-get -o DPkg::Lock::Timeout=120 -o APT::Update::Error-Mode=any update
  # Word splitting is wanted: the command is the one that is shown to those without root.
  # shellcheck disable=SC2086
  run_step "packages" ${install/apt-get/apt-get -o DPkg::Lock::Timeout=120}
}

# A Python from 3.10 on that can make a virtual environment; Debian's own first.
choose_python() {
  local candidate
  for candidate in ${XOE_PYTHON:-/usr/bin/python3 python3 python3.13 python3.12 python3.11 python3.10}; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  die "no Python from 3.10 on with venv and ensurepip${XOE_PYTHON:+ at XOE_PYTHON=$XOE_PYTHON}; on Debian install python3-venv"
}

setup_python() {
  local venv=$root/.venv requirements=(-r "$root/requirements/core.txt") stamp=.xoe-core python wanted
  local lists=("$root/requirements/tools.txt" "$root/requirements/core.txt") dependencies=--no-deps
  if [[ " ${sections[*]} " == *" bench "* ]]; then
    lists+=("$root/requirements/bench.txt")
    requirements+=(-r "$root/requirements/bench.txt")
    dependencies=
    stamp=.xoe-bench
  fi
  wanted=$(cat "${lists[@]}" | sha256sum)
  if [[ -f $venv/$stamp && $(<"$venv/$stamp") == "$wanted" && ! -f $venv/.xoe-unfinished ]] &&
    "$venv/bin/python" -c '' 2>/dev/null; then
    return
  fi
  # An environment that an interrupted run left is removed and made again: the downloads are in uv's cache.
  if [[ -f $venv/.xoe-unfinished ]] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$venv"
    python=$(choose_python) || exit 1
    say "making the Python environment .venv with $("$python" --version)"
    run_step "python environment" make_venv "$python"
  fi
  touch "$venv/.xoe-unfinished"
  say "installing the Python packages of requirements/ (libtorch: about 550 MB to download)"
  run_step "python tools" "$venv/bin/python" -m pip install --disable-pip-version-check -r "$root/requirements/tools.txt"
  use_pip_settings "$venv/bin/python"
  # shellcheck disable=SC2086
  run_step "python packages" "$venv/bin/uv" pip install --python "$venv/bin/python" $dependencies "${requirements[@]}"
  echo "$wanted" >"$venv/$stamp"
  if [[ $stamp == .xoe-bench ]]; then
    cat "${lists[@]:0:2}" | sha256sum >"$venv/.xoe-core"
  fi
  rm -f "$venv/.xoe-unfinished"
}

make_venv() {
  mkdir -p "$root/.venv" && touch "$root/.venv/.xoe-unfinished" && "$1" -m venv "$root/.venv"
}

setup_build() {
  local preset=${1%%:*} targets=() fresh=() unity=() started=$SECONDS
  local folder=$root/build/$preset
  if [[ $1 == *:* ]]; then
    IFS=, read -ra targets <<<"${1#*:}"
    targets=(--target "${targets[@]}")
  fi
  if [[ ! -f $folder/build.ninja || $root/CMakePresets.json -nt $folder/build.ninja ]] ||
    ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$folder/CMakeCache.txt"; then
    if [[ -f $folder/CMakeCache.txt ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$folder/CMakeCache.txt"; then
      fresh=(--fresh)
    fi
    if [[ ! -f $folder/CMakeCache.txt || ${#fresh[@]} -gt 0 ]] && [[ $preset != dev ]]; then
      unity=(-DXOE_UNITY=ON)
    fi
    say "configuring build/$preset"
    run_step "configure $preset" cmake --preset "$preset" "${fresh[@]}" "${unity[@]}"
  fi
  if [[ $want_build == no ]]; then
    # What a change of a CMakeLists.txt asks for; quick when there was none.
    run_step "configure $preset" cmake --build "$folder" --target build.ninja
    return 0
  fi
  say "building build/$preset"
  run_step "build $preset" cmake --build "$folder" "${targets[@]}"
  if ((SECONDS - started > 5)); then
    say "built in $((SECONDS - started)) s"
  fi
}

lock_checkout() {
  mkdir -p "$root/build" 2>/dev/null || die "cannot write to $root: no permission, or the disk is full"
  exec 9>"$root/build/.setup.lock"
  if ! flock -n 9; then
    say "waiting for another set-up of this checkout to end"
    flock 9
  fi
}

cd "$root"
lock_checkout
setup_packages
if [[ $want_python == yes ]]; then
  setup_python
fi
for preset in "${presets[@]}"; do
  setup_build "$preset"
done
