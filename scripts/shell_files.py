#!/usr/bin/env python3
"""Writes what shells need to know of the programs: manual pages and completions, from what the programs say of themselves.

  scripts/shell_files.py BIN FOLDER

BIN has `xoe` and the programs of its verbs; FOLDER becomes like share/: man/man1/xoe-run.1 and so on, and for bash, zsh and
fish a file in the folder where each looks for it.
"""

import pathlib
import re
import subprocess
import sys

COMPLETIONS = {
    "bash": "bash-completion/completions/xoe",
    "zsh": "zsh/site-functions/_xoe",
    "fish": "fish/vendor_completions.d/xoe.fish",
}
BUILT_IN_WITHOUT_PAGE = {"help"}


def ask(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout


def sections_of(text):
    """The headline, the usage, and the sections as (title, lines)."""
    head, *rest = re.split(r"\n\n(?=\S)", text.rstrip("\n"))
    usage = ""
    sections = []
    for part in rest:
        first, *lines = part.split("\n")
        if first.startswith("Usage: "):
            usage = first.removeprefix("Usage: ")
        elif first.endswith(":") and lines and all(line.startswith("  ") or not line for line in lines):
            sections.append((first.rstrip(":"), lines))
        else:
            sections.append(("", [first, *lines]))
    return " ".join(head.split("\n")), usage, sections


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def entries_of(lines):
    """Pairs of what stands at the left and what stands at the right, out of rows in two columns."""
    entries = []
    for line in lines:
        row = re.fullmatch(r"  (\S.*?)(?:  +(\S.*))?", line)
        if row:
            entries.append([row[1], row[2] or ""])
        elif line.strip():
            entries[-1][1] = f"{entries[-1][1]} {line.strip()}".strip()
    return entries


def page_of(name, text, version):
    headline, usage, sections = sections_of(text)
    out = [f'.TH "{name.replace(" ", "-").upper()}" 1 "" "Xoe {version}" "Xoe"']
    what = headline.removeprefix(name + ": ").rstrip(".")
    out += [".SH NAME", f"{escaped(name.replace(' ', '-'))} \\- {escaped(what)}", ".SH SYNOPSIS", escaped(usage)]
    for title, lines in sections:
        if not title:
            exit_codes = lines[0].startswith("Exit codes: ")
            lines[0] = lines[0].removeprefix("Exit codes: ")
            out += [".SH EXIT STATUS" if exit_codes else ".SH NOTES", *map(escaped, lines)]
        elif title in ("Example", "Examples"):
            out += [".SH EXAMPLES", ".nf", *(escaped(line) for line in lines), ".fi"]
        else:
            out += [f".SH {title.upper()}"]
            for left, right in entries_of(lines):
                out += [".TP", f".B {escaped(left)}", escaped(right)]
    return "\n".join(out) + "\n"


def verbs_of(text):
    _, _, sections = sections_of(text)
    return [left for title, lines in sections if title == "Verbs" for left, _ in entries_of(lines)]


def pages(program, version, words=()):
    """Every verb's page by its name."""
    text = ask(program, *words, "--help")
    name = " ".join(("xoe", *words))
    yield name.replace(" ", "-"), page_of(name, text, version)
    for verb in verbs_of(text):
        if verb not in BUILT_IN_WITHOUT_PAGE:
            yield from pages(program, version, (*words, verb))


def main(binaries, folder):
    program = pathlib.Path(binaries) / "xoe"
    share = pathlib.Path(folder)
    version = ask(program, "--version").split()[1]
    files = {f"man/man1/{name}.1": page for name, page in pages(program, version)}
    files |= {path: ask(program, "completion", shell) for shell, path in COMPLETIONS.items()}
    for path, text in files.items():
        (share / path).parent.mkdir(parents=True, exist_ok=True)
        (share / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: scripts/shell_files.py BIN FOLDER")
    main(*sys.argv[1:])
