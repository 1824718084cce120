"""Runs the commands of a document, one block after the other, in a folder of their own: what the pages say must work.

  commands_test.py [PAGE...]      with XOE_BUILD_DIR; without pages, all

In the folder are examples/, deploy/ and scripts/ of the source tree, a program train.py, and what PREPARE makes. Hosts called nodeA and
nodeB are played by this machine: a command in place of ssh starts their agents here.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import time

sys.dont_write_bytecode = True
sys.path += [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).resolve().parents[2] / "frameworks/tests/python")]
import pages
import ranks

BUILD = ranks.BUILD
PROGRAMS = BUILD / "bin"

PHOTOS = "xoe data make photos --format folder --images 64 --validation 24 --classes 4\n"
DATA = "xoe data make data --images 64 --validation 16 --classes 4 --shards 8\n"
# What a reader of the page has already.
PREPARE = {
    "docs/guide/data.md": PHOTOS + "xoe data make shards --format tar --images 24 --validation 8 --classes 4\n",
    "docs/guide/timeline.md": "XOE_TIMELINE=run.json xoe run -np 4 example_named_tensors\n",
    "docs/reference/data.md": PHOTOS + "xoe data make imagenet --images 32 --validation 8 --classes 4\n",
    "docs/reference/train.md": "xoe data make demo-data --images 160 --validation 32 --classes 4\n",
}
# Sizes for a machine that is not idle: the page's command, smaller. What it says is still run, word by word but for these.
SMALLER = [
    (r"--images 3000\b", "--images 160 --validation 32"),
    (r"--images 2000\b", "--images 40 --validation 20"),
    (r"--epochs (?:2|10)\b", "--steps 2"),
    (r"--steps 50\b", "--steps 2"),
    (r"--shards 64\b", "--shards 4"),
    (r"(data (?:bench|compare) (?!.*--seconds)\S+)", r"\1 --seconds 0.5 --warmup 0.2"),
]
# The same commands on many pages; each runs for the first of them.
REPEATED = {
    "xoe run -np 4 python train.py",
    "xoe run -H nodeA:4,nodeB:4 python train.py",
    "torchrun --nproc-per-node 4 train.py",
}
COMMENT = re.compile(r" +#.*")

WRAPPER = """\
#!/bin/bash
# Hosts of the page that do not exist are played by this machine.
if [[ ${{1:-}} == run && "$*" == *node[AB]* && "$*" != *--dry-run* ]]; then
  shift
  exec {xoe} run --launch-agent {agent} --xoe-path {xoe} "$@"
fi
if [[ ${{1:-}} == doctor && "$*" == *node[AB]* ]]; then
  shift
  set -- doctor --ssh-command {ssh} --xoe-path {xoe} "$@"
fi
if [[ ${{1:-}} == doctor ]]; then
  {xoe} "$@" || [[ $? == 1 ]] # 1: this machine has a problem, which is no fault of the page
  exit
fi
exec {xoe} "$@"
"""
AGENT = '#!/bin/bash\nshift\nexec "$@"\n'
# In place of ssh: options, the host, a command line.
SSH = """\
#!/bin/bash
while [[ $1 == -* ]]; do
  case $1 in -o | -p | -i) shift 2 ;; *) shift ;; esac
done
shift
exec sh -c "$*"
"""


def write_program(path, text):
    path.write_text(text)
    path.chmod(0o755)


def prepare_folder(folder):
    tools = folder / ".tools"
    tools.mkdir()
    for name in ("examples", "deploy", "scripts"):
        (folder / name).symlink_to(pages.ROOT / name)
    (folder / "train.py").write_text((pages.ROOT / "examples/tutorial/two.py").read_text())
    write_program(tools / "python", f'#!/bin/sh\nexec {ranks.interpreter()} "$@"\n')
    pages.write_entry_points(tools)
    write_program(tools / "horovodrun", f'#!/bin/sh\nexec {PROGRAMS / "xoe"} run "$@"\n')
    write_program(tools / "agent", AGENT)
    write_program(tools / "ssh", SSH)
    write_program(tools / "xoe", WRAPPER.format(xoe=PROGRAMS / "xoe", agent=tools / "agent", ssh=tools / "ssh"))
    return tools


def environment(tools):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XOE_", "HOROVOD_"))}
    paths = [tools, PROGRAMS, pathlib.Path(ranks.interpreter()).parent, os.environ["PATH"]]
    return {
        **kept,
        "PATH": os.pathsep.join(map(str, paths)),
        "PYTHONPATH": os.pathsep.join([str(BUILD / "python"), str(tools)]),
        "OMP_NUM_THREADS": "1",
    }


def smaller(text):
    for pattern, replacement in SMALLER:
        text = re.sub(pattern, replacement, text)
    return text


def run_shell(text, folder, variables):
    script = "set -euo pipefail\n" + text
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=variables, capture_output=True, text=True, timeout=800, check=False
    )


def not_yet_run(text, ran):
    """The block without the commands of REPEATED that ran for another one."""
    lines = []
    for line in text.splitlines(keepends=True):
        command = COMMENT.sub("", line).strip()
        if command not in ran:
            lines.append(line)
        if command in REPEATED:
            ran.add(command)
    return "".join(lines)


def run_page(page, ran):
    blocks = [block for block in pages.blocks_of(pages.ROOT / page) if block.language == "sh"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        variables = environment(prepare_folder(folder))
        for block in pages.blocks_of(pages.ROOT / page):
            if block.saved_as:
                (folder / block.saved_as).write_text(block.text)
        if page in PREPARE:
            done = run_shell(PREPARE[page], folder, variables)
            assert done.returncode == 0, f"{page}: preparing: {done.stdout}{done.stderr}"
        for block in blocks:
            if block.skip:
                print(f"  {block}: not run: {block.skip}", flush=True)
                continue
            text = not_yet_run(block.text, ran)
            if not text.strip():
                print(f"  {block}: ran for another page", flush=True)
                continue
            start = time.monotonic()
            done = run_shell(smaller(text), folder, variables)
            print(f"  {block}: exit code {done.returncode} after {time.monotonic() - start:.1f} s", flush=True)
            said = textwrap.indent(block.text + done.stdout[-3000:] + done.stderr[-3000:], "    ")
            assert done.returncode == 0, f"{block} fails:\n{said}"


def main():
    ranks.interpreter()  # ends with "skipped" where there is none
    failed = 0
    ran = set()
    for page in sys.argv[1:] or dict.fromkeys(block.page for block in pages.all_blocks() if block.language == "sh"):
        try:
            run_page(page, ran)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            print(error, flush=True)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
