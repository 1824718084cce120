"""The reference of the command line: what every verb prints for --help."""

import os
import re
import subprocess

# Of a program that does not list them.
VERBS = ("run", "train", "doctor", "timeline", "report", "data", "pool")
SUBCOMMANDS = re.compile(r"^(?:Subcommands|Verbs|Commands):\n((?:  .*\n)+)", re.MULTILINE)


def help_of(programs, *words):
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "80"}
    done = subprocess.run(
        [programs / "xoe", *words, "--help"],
        capture_output=True,
        text=True,
        env=environment,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    if done.returncode != 0:
        raise RuntimeError(f"xoe {' '.join(words)} --help ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout.replace("\0", "").strip()


def subcommands(text):
    block = SUBCOMMANDS.search(text + "\n")
    return re.findall(r"^  (\w[\w-]*) ", block[1], re.MULTILINE) if block else []


def page(programs):
    front = help_of(programs)
    parts = [
        "# The command line",
        "What each program prints for `--help`. The pages [xoe run](run.md), [xoe train](train.md), [xoe report](report.md), [xoe data](data.md), "
        "[xoe doctor](doctor.md) and [a pool of GPUs](../guide/pool.md) explain more.",
        "## xoe",
        block(front),
    ]
    for verb in [name for name in subcommands(front) if name != "help"] or VERBS:
        text = help_of(programs, verb)
        parts += [f"## xoe {verb}", block(text)]
        for name in subcommands(text):
            if verb != "doctor":  # its one subcommand is for other hosts' doctors
                parts += [f"### xoe {verb} {name}", block(help_of(programs, verb, name))]
    return "\n\n".join(parts) + "\n"


def block(text):
    return f"```text\n{text}\n```"
