#!/usr/bin/env python3
"""Finds words that docs/glossary.md replaces by the field's own, in names of files, in code and in documents.

  scripts/check_words.py [ROOT]

Prints one line for each and exits 1 if there is any.
"""

import os
import pathlib
import re
import subprocess
import sys

from houses import HOUSES

FOLDERS = (*HOUSES, "packages", "examples", "scripts", "cmake", "deploy", "docs")
SUFFIXES = {".h", ".cc", ".c", ".py", ".pyi", ".sh", ".cmake", ".md", ".txt", ".toml", ".yaml", ".yml", ".pml"}
# They name the words that are replaced.
EXEMPT = {"CHANGELOG.md", "docs/glossary.md", "scripts/check_words.py", "scripts/tests/check_words_test.py"}


def part(word):
    """A word as a part of a name, in either spelling: `crew` matches crew, crew_, Crew, HostsCrew, local_crew."""
    return rf"(?:(?<![A-Za-z]){word[0]}|{word[0].upper()}){word[1:]}(?![a-z])"


def type_name(word):
    """A word where C++ uses it as the name of a type."""
    return rf"\b(?:struct|class|enum class) {word}\b(?! is\b)|\b{word}(?:[&*]|::)|<{word}>"


# (what is forbidden, what the field says); the second stands in docs/glossary.md.
WORDS = [
    (r"(?<!Tensor)Board(?![a-z])|\bboard_\b|\bboard\.(?:h|cc)\b", "ReadinessTable"),
    (part("council"), "coordinator"),
    (type_name("Words"), "RankSubmission"),
    (r"\bTraits\b", "OpSpec"),
    (part("workshop"), "OpContext or OrderedThreadPool"),
    (type_name("Item"), "ReadyOp"),
    (type_name("Piece"), "TensorSlice"),
    (type_name("Running"), "Batch"),
    (r"\bDriving\b|\b\w*drive_\w+|\b(?:try|is)_driv\w+|\bdrive\(\)|\bthat drives\b|\bwho drives\b", "progress"),
    (r"\blook_around\w*", "check_failures"),
    (r"\brouse\w*", "wake_progress_thread"),
    (r"\bhand_over\w*", "enqueue"),
    (part("crew"), "JobProcesses"),
    (part("guardian"), "Supervisor"),
    (type_name("Ending") + r"|launch/ending\.", "ShutdownPolicy"),
    (type_name("Way"), "LaunchMethod"),
    (r"\bHostLink\b|host_link", "LeaderChannel or AgentConnection"),
    (r"(?<!hn::)\bLanes\b(?!\()|\blanes(?:_\w+)?\.(?:h|cc)\b", "Rails"),
    (part("alarm"), "FailureListener or FailureLog"),
    (part("farewell"), "CloseReason"),
    (r"\bBells?\b|\bbells?_\b|\bbell\.(?:h|cc)\b", "WakeupChannel"),
    (r"\bStandIns?\b|stand_in", "PlaceholderBuffers"),
    (r"\bmovement\.cc", "operation_data.cc"),
    (r"\bLatched|\blatched_\w+", "IteratorBase"),
    (r"\bdeal\(|\bDeal[A-Z]\w*|\bdeal_\w+", "shard_batches"),
    (r"\bImageMaking\b", "ImageTransform"),
    (r"\brun_apart\b|\bapart\.(?:h|cc)\b", "run_in_child"),
    (part("surroundings"), "Virtualization"),
    (r"\b[Kk]nock(?:s|ed|ing)?\b", "client_hello"),
    (r"\b[Ss]trangers?\b", "unauthenticated"),
    (r"\b(?:joining|meeting|built)\.py\b|\b(?:carrier|terms_of|place_of)\(", "the field's verb"),
    (type_name("Wish"), "WorldView::Change"),
    (r"\btakes_turns\b", "queue_same_name"),
    (type_name("Gathering") + r"|\bgathering\.(?:h|cc)\b", "RendezvousServer"),
    (r"\bAskedEnds\b|\basked_ends\b", "RequestedStop"),
    (r"\bverdict\.(?:h|cc)\b", "member_exit"),
    (r"\bsettles_at\b|\.settle\(|::settle\b", "flush_bar"),
    (type_name("Ask"), "LeaseRequest"),
    (type_name("Keeper") + r"|\bkeeper\.(?:h|cc)\b", "LeaseReaper"),
    (r"\bIdleVerdict\b", "IdleAssessment"),
    (r"\b(?:[Ss]omebody|[Nn]obody|[Ww]hoever|[Aa]new)\b", "plain English"),
    (r"(?:^|//|#|\*|[.:;])[ \t]*(?:That of|What is|Whoever)\b(?!.*\?)", "plain English"),
]
PATTERNS = [(re.compile(pattern, re.MULTILINE), better) for pattern, better in WORDS]


def files_of(root):
    for folder in FOLDERS:
        yield from sorted((root / folder).rglob("*"))
    yield from sorted(root.glob("*.md"))
    yield from (root / name for name in ("CMakeLists.txt", "Makefile"))


def check_text(path, text):
    """Every forbidden word of a file and of its name, as (line, message)."""
    named = f"{path}\n{text}"
    found = []
    for pattern, better in PATTERNS:
        for match in pattern.finditer(named):
            found.append((max(named.count("\n", 0, match.end()), 1), f"'{match[0].strip()}': the glossary says {better}"))
    return sorted(found)


def candidates(files):
    """Those of the files in which grep, which is many times faster, finds one of the words."""
    pattern = "|".join(f"(?:{pattern})" for pattern, _ in WORDS)
    command = ["grep", "-lPe", pattern, "--", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    if done.returncode > 1 or done.stderr:
        raise RuntimeError(f"grep: {done.stderr.strip()}")
    return set(done.stdout.splitlines())


def check_tree(root):
    """Every violation under root as `file:line: message`."""
    root = pathlib.Path(root)
    files = []
    for file in files_of(root):
        path = file.relative_to(root).as_posix()
        wanted = file.suffix in SUFFIXES or file.name == "Makefile"
        if wanted and file.is_file() and "__pycache__" not in file.parts and path not in EXEMPT:
            files.append((file, path))
    found = candidates([file for file, _ in files])
    messages = []
    for file, path in files:
        text = file.read_text(encoding="utf-8", errors="replace") if str(file) in found else ""
        messages += [f"{path}:{line}: {message}" for line, message in check_text(path, text)]
    return messages


def main():
    messages = check_tree(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1])
    for message in messages:
        print(message)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
