#!/usr/bin/env bash
# Builds the documentation site into build/docs/html, without the network: warnings are errors, and links are checked.
#   scripts/docs.sh [--programs FOLDER]      FOLDER: where xoe and its companions are; default: build/release/bin, built first
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$root"
programs=
if [[ ${1:-} == --programs && $# == 2 ]]; then
  programs=$2
elif (($# > 0)); then
  die "usage: scripts/docs.sh [--programs FOLDER]"
fi

if [[ -z $programs ]]; then
  programs=build/release/bin
  scripts/setup.sh --with docs release:xoe,xoe-train,xoe-bench,xoe-data,xoe-doctor,xoe-notice,xoe-report,xoe-sweep,xoe-timeline,xoe-pool
  install_docs_tools
fi
tools=build/peers/docs/bin
[[ -x $tools/sphinx-build ]] || die "build/peers/docs is missing: make docs installs it"
command -v doxygen >/dev/null || die "doxygen is missing: make docs installs it"

out=build/docs
mkdir -p "$out"
run_step "docs pages" python3 -B docs/site/stage.py "$out/pages" --programs "$programs"
headers=$out/headers
run_step "docs headers" python3 -B docs/site/headers.py "$headers"
if [[ ! -f $out/xml/index.xml || -n $(find "$headers" docs/site/Doxyfile -newer "$out/xml/index.xml" -print -quit) ]]; then
  printf '%s\n' "INPUT = $headers" "STRIP_FROM_PATH = $headers" "OUTPUT_DIRECTORY = $out" | cat docs/site/Doxyfile - >"$out/Doxyfile"
  run_step "docs declarations" doxygen "$out/Doxyfile"
fi
export XOE_DOXYGEN_XML=$root/$out/xml
run_step "docs site" "$tools/sphinx-build" -q -a -W --keep-going -b html -c docs/site -d "$out/trees" "$out/pages" "$out/html"
run_step "docs links" python3 -B docs/site/check_site.py "$out/html"
say "the documentation is in $out/html/index.html"
