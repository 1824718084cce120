#!/usr/bin/env bash
# Formatting, shell scripts, the rules of the tree, clang-tidy over everything but tests and what includes libtorch (whose headers take
# clang-tidy a minute a file; XOE_LINT_TORCH=1 includes it), and for those two a compiler, file by file.
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
for check in includes words classes; do
  "scripts/check_$check.py" || failed+=("check_$check")
done

# Databases of compile commands, file by file; what is generated is nothing, so no build is needed.
run_step "configure lint" cmake --preset release -B build/lint -DXOE_UNITY=OFF
without_torch=build/lint
if [[ ${XOE_LINT_TORCH:-} != 1 ]]; then
  without_torch=build/lint-without-torch
  run_step "configure lint without torch" cmake --preset asan -B "$without_torch" -DXOE_UNITY=OFF
fi
mapfile -t units < <(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$without_torch/compile_commands.json" | grep -vE '/(tests|\.venv)/' | sort -u)
say "clang-tidy: ${#units[@]} files"
printf '%s\0' "${units[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p "$without_torch" 2> >(grep -vE '^[0-9]+ warnings? generated' >&2 || true) ||
  failed+=(clang-tidy)

say "the other files, each compiled alone"
scripts/compile_alone.py build/lint --but "${units[@]}" || failed+=("compiling alone")

if ((${#failed[@]} > 0)); then
  printf -v list '%s, ' "${failed[@]}"
  die "lint found something: ${list%, }"
fi
say "nothing to complain about"
