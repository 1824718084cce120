"""The code blocks of the documents, and what a test does with each.

A comment in front of a block says what is not usual:

  <!-- test: skip REASON -->           the block is not run
  <!-- test: within FILE -->           it takes the place of the line BLOCK in FILE, which is then compiled or run
  <!-- test: within FILE on N ranks -->
  <!-- test: part of FILE -->          FILE contains it, and is tested
  <!-- test: on N ranks -->            a Python program for N ranks
  <!-- test: saved as FILE -->         FILE in the folder of the page's blocks of sh, which run it

Blocks of sh run one after the other, page by page, in one folder. Blocks of cpp and c are compiled, of python at least parsed, of diff
compared where the page names two files. Others are output or data.
"""

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMENT = re.compile(r"<!-- test: (?:(skip) (.+?)|(?:(within|part of|saved as) (\S+))?(?: ?on (\d+) ranks)?) -->")
FENCE = re.compile(r"( *)```([\w{}+-]*)\s*$")


@dataclasses.dataclass
class Block:
    page: str  # path below the root
    line: int  # of the fence, from 1
    language: str
    text: str
    skip: str | None = None
    within: str | None = None
    part_of: str | None = None
    saved_as: str | None = None
    ranks: int = 0

    def __str__(self):
        return f"{self.page}:{self.line}"


def documents():
    """The documents whose blocks are tested: all but records of decisions, which are history."""
    found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", ".github/SECURITY.md")]
    found += sorted(path for path in (ROOT / "docs").rglob("*.md") if "decisions" not in path.parts)
    return [path for path in found if path.exists()]


def blocks_of(path):
    found, comment, block, indent = [], None, None, ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = FENCE.match(line)
        if block is not None:
            if fence and not fence[2]:
                block.text = "\n".join(block.text) + "\n"
                found.append(block)
                block = None
            else:
                block.text.append(line.removeprefix(indent))
        elif fence:
            indent = fence[1]
            block = Block(path.relative_to(ROOT).as_posix(), number, fence[2], [])
            if comment:
                block.skip, block.ranks = comment[2], int(comment[5] or 0)
                block.within = comment[4] if comment[3] == "within" else None
                block.part_of = comment[4] if comment[3] == "part of" else None
                block.saved_as = comment[4] if comment[3] == "saved as" else None
            comment = None
        elif line.strip():
            comment = COMMENT.fullmatch(line.strip())
    return found


def write_entry_points(folder):
    """What an installation of the Python package tells PyTorch: where the backend xoe is. A build folder has no such file."""
    found = re.search(r'\[project.entry-points."torch.backends"\]\nxoe = "([^"]+)"', (ROOT / "pyproject.toml").read_text())
    made = folder / "xoe-0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: xoe\nVersion: 0\n")
    (made / "entry_points.txt").write_text(f"[torch.backends]\nxoe = {found[1]}\n")


def all_blocks():
    return [block for path in documents() for block in blocks_of(path)]
