#!/usr/bin/env bash
# Formatting, shell scripts, the rules of the tree, then clang-tidy over everything that does not include libtorch (whose
# headers take clang-tidy a minute a file; XOE_LINT_TORCH=1 includes it).
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$root"
scripts/setup.sh --with lint
mapfile -t sources < <(git ls-files --cached --others --exclude-standard -- '*.h' '*.cc')
failed=()

say "clang-format: ${#sources[@]} files"
clang-format --dry-run -Werror "${sources[@]}" || failed+=("clang-format (run \`make format\`)")

say "shellcheck"
shellcheck -x scripts/*.sh .ci/run || failed+=(shellcheck)

install_lint_tools
tools=build/peers/lint
say "Python: ruff and mypy"
"$tools/bin/ruff" check -q bindings/python || failed+=("ruff check")
"$tools/bin/ruff" format -q --check bindings/python tests/python bench/python || failed+=("ruff format (run \`make format\`)")
# PyTorch's types are read from .venv.
"$tools/bin/mypy" --python-executable .venv/bin/python || failed+=(mypy)

say "rules of the tree"
scripts/check_includes.py || failed+=(check_includes)

# The database of compile commands; what is generated is nothing, so no build is needed.
preset=asan
if [[ ${XOE_LINT_TORCH:-} == 1 ]]; then
  preset=release
fi
run_step "configure $preset" cmake --preset "$preset"
mapfile -t units < <(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "build/$preset/compile_commands.json" | grep -v '/tests/' | sort -u)
say "clang-tidy: ${#units[@]} files"
printf '%s\0' "${units[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p "build/$preset" 2> >(grep -vE '^[0-9]+ warnings? generated' >&2 || true) ||
  failed+=(clang-tidy)

if ((${#failed[@]} > 0)); then
  printf -v list '%s, ' "${failed[@]}"
  die "lint found something: ${list%, }"
fi
say "nothing to complain about"
