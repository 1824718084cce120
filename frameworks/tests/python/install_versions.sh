#!/usr/bin/env bash
# The environments of requirements/versions.txt, each with a PyTorch of its own, in build/peers/python-3.10 and so on, for
# frameworks/tests/python/versions_test.py. They take some 15 GB. A Python that this machine lacks is left out; pyenv's are found.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib.sh"
cd "$root"
mkdir -p build/peers

while read -r version packages; do
  if [[ -z $version || $version == \#* ]]; then continue; fi
  folder=build/peers/python-$version
  if [[ -x $folder/bin/python && -f $folder/installed && $(<"$folder/installed") == "$packages" ]]; then continue; fi
  if ! base_python=$(find_python "$version"); then
    echo "warning: no Python $version here; it is left out" >&2
    continue
  fi
  say "installing ${packages%% *} for Python $version into $folder"
  # Word splitting is wanted: several packages.
  # shellcheck disable=SC2086
  run_step "python $version" make_environment "$folder" $packages
  echo "$packages" >"$folder/installed"
done <requirements/versions.txt
