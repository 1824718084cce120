"""The documents without running anything: each block has a known language, messages and drawings are those of today, links lead on."""

import ast
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path += [str(ROOT / "scripts"), str(ROOT / "docs/site"), str(pathlib.Path(__file__).parent)]
import articles
import charts
import check_site
import headers
import pages
import python_api
import stage
from houses import HOUSES

LANGUAGES = {"", "sh", "python", "cpp", "c", "cmake", "diff", "text", "json", "toml", "yaml", "bibtex", "rust", "go", "r"}
SAID_BY = re.compile(r"<!-- said by: ([\w./-]+): (.+?) -->")
# The usual messages: the source that says each, and the words by which a reader finds it in docs/troubleshooting.
USUAL = [
    ("launch/remote/spawn.cc", "exited with code"),
    ("launch/remote/program.cc", "no such file"),
    ("launch/plan/job_plan.cc", "ranks run on one host"),
    ("launch/remote/host_failure.cc", "nothing was heard of it"),
    ("core/engine/watch/stall.cc", "has waited for"),
    ("core/engine/watch/stall.cc", "missing on"),
    ("core/engine/negotiate/host_agreement.cc", "ranks disagree"),
    ("core/engine/process_sets/process_set.cc", "has shut its engine down"),
    ("core/base/env.cc", "environment variable"),
    ("core/engine/telemetry/metrics_server.cc", "metrics: cannot listen on 127.0.0.1:"),
    ("core/backend/nccl/device.cc", "has no GPU"),
    ("data/records/record_file.cc", "truncated:"),
    ("data/records/record_file.cc", "bytes of data is wrong"),
    ("data/load/compare_opened.cc", "the ranks have different data"),
    ("data/load/class_runs.cc", "records of one class lie together"),
]
EXTERNAL_SCRIPT = '<html><script src="https://cdn.example.org/x.js"></script><a href="b.html#none">b</a></html>'


class Blocks(unittest.TestCase):
    def test_languages_are_known(self):
        self.assertEqual([str(block) for block in pages.all_blocks() if block.language not in LANGUAGES], [])

    def test_python_is_python(self):
        for block in pages.all_blocks():
            if block.language == "python" and not block.skip:
                with self.subTest(block=str(block)):
                    ast.parse(block.text)

    def test_frames_exist(self):
        for block in pages.all_blocks():
            if block.within:
                self.assertIn("BLOCK", (ROOT / block.within).read_text().split(), str(block))

    def test_parts_are_parts(self):
        for block in pages.all_blocks():
            if block.part_of:
                self.assertIn(block.text, (ROOT / block.part_of).read_text(), str(block))

    def test_programs_in_cpp_and_c_are_compiled(self):
        for block in pages.all_blocks():
            if block.language in ("cpp", "c"):
                self.assertTrue(
                    block.within or block.part_of or block.skip or "#include" in block.text, f"{block}: what compiles it?"
                )


class Messages(unittest.TestCase):
    def test_pages_quote_what_the_source_says(self):
        found = 0
        for path in sorted((ROOT / "docs/troubleshooting").glob("*.md")):
            for source, text in SAID_BY.findall(path.read_text()):
                found += 1
                self.assertIn(text, (ROOT / source).read_text(), f"{path.name}: {source} does not say so")
        self.assertGreater(found, 10)

    def test_usual_messages_are_found_by_their_words(self):
        written = "".join(path.read_text() for path in (ROOT / "docs/troubleshooting").glob("*.md"))
        for source, words in USUAL:
            with self.subTest(words=words):
                self.assertIn(words, (ROOT / source).read_text())
                self.assertIn(words, written)

    def test_pages_that_messages_name_exist(self):
        for path in [path for house in HOUSES for path in (ROOT / house).rglob("*") if path.suffix in {".cc", ".py"}]:
            for page in re.findall(r'"[^"\n]*\b(docs/[\w/.-]+\.md)', path.read_text()):
                self.assertTrue((ROOT / page).exists(), f"{path.relative_to(ROOT)}: {page}")

    def test_each_page_is_in_the_list(self):
        folder = ROOT / "docs/troubleshooting"
        listed = (folder / "README.md").read_text()
        self.assertEqual(
            [path.name for path in folder.glob("*.md") if path.name != "README.md" and f"({path.name})" not in listed], []
        )


class Tutorial(unittest.TestCase):
    def test_the_difference_is_the_one_of_the_programs(self):
        shown = next(block for block in pages.blocks_of(ROOT / "docs/guide/tutorial.md") if block.language == "diff")
        programs = [ROOT / "examples/tutorial" / name for name in ("one.py", "two.py")]
        real = subprocess.run(["diff", "-U0", *programs], capture_output=True, text=True, check=False).stdout.splitlines()
        changes = [line for line in real[2:] if line[:1] in "+-" and line.strip("+-") and '"""' not in line]
        self.assertEqual([line for line in shown.text.splitlines() if line[:1] in ("+", "-")], changes)
        for line in shown.text.splitlines():
            if line.startswith(" ") and line.strip():
                self.assertIn(line[1:], programs[1].read_text().splitlines())


class Drawings(unittest.TestCase):
    def test_the_charts_have_the_figures_of_the_tables(self):
        for name, (title, measurements) in charts.CHARTS.items():
            drawn = re.findall(r"<text [^>]*>([^<]*)</text>", (charts.IMAGES / f"{name}.svg").read_text())
            wanted = [(one["name"], one["runs"][0]) for one in measurements()]
            texts = [(drawn[at], drawn[at + 1].split()[0]) for at in range(len(drawn)) if drawn[at] in dict(wanted)]
            self.assertEqual(drawn[0], title)
            shown = [(name, f"{value:.3g}" if value < 1000 else f"{value:.0f}") for name, value in wanted]
            self.assertEqual(texts, shown, "docs/site/charts.py draws them")


class Articles(unittest.TestCase):
    def test_the_page_has_the_figures_of_the_data_files(self):
        page = (ROOT / "docs/reference/articles.md").read_text()
        self.assertIn(articles.tables(), page, "docs/site/articles.py --write puts them there")


class Site(unittest.TestCase):
    def test_every_document_is_in_the_navigation(self):
        listed = (ROOT / "docs/README.md").read_text()
        for path in sorted((ROOT / "docs").rglob("*.md")):
            name = path.relative_to(ROOT / "docs").as_posix()
            if path.parts[-2] not in ("decisions", "troubleshooting", "site") and name != "README.md":
                self.assertIn(f"({name})", listed)

    def test_the_first_page_keeps_its_directives(self):
        """A formatter of plain Markdown joins their lines, and an open directive takes the navigation in."""
        lines = (ROOT / "docs/site/index.md").read_text().splitlines()
        self.assertEqual(lines[:3], ["---", "hide-toc: true", "---"])
        opened = []
        for line in lines:
            if match := re.fullmatch(r"(:{3,})(\{\S+\} .*)?", line):
                if match[2]:
                    opened.append(match[1])
                else:
                    self.assertEqual(opened.pop() if opened else "none", match[1])
            else:
                self.assertNotIn(":::", line)
        self.assertEqual(opened, [])

    def test_links_out_of_docs_lead_to_pages(self):
        site = stage.Site("/nonexistent")
        text = "[a](../../examples/sum.cc) [b](../../CONTRIBUTING.md#x) [c](concepts.md) [d](https://example.org)\n```\n[e](../../x)\n```\n"
        linked = site.relink(text, ROOT / "docs/guide/tutorial.md")
        expected = (
            "[a](/source/examples/sum.cc.md) [b](/project/contributing.md#x) [c](/guide/concepts.md) [d](https://example.org)\n"
        )
        self.assertEqual(linked, expected + "```\n[e](../../x)\n```\n")

    def test_comments_of_headers_become_documentation(self):
        self.assertEqual(
            headers.of_cpp("#pragma once\n// One <T>.\nint f();  // `x<y>`\n"),
            "#pragma once\n/// One \\<T\\>.\nint f();  ///< `x<y>`\n",
        )
        self.assertTrue(headers.of_cpp("// About the header.\n").startswith("/// \\file\n/// About"))
        self.assertEqual(
            headers.of_c("\n/* One,\n * two. */\nint f(void); /* three */\n"),
            "\n/** One,\n * two. */\nint f(void); /**< three */\n",
        )
        part = "\n/* ---- Errors ---- */\n\nint f(void);\n"
        self.assertEqual(headers.of_c(part), part)

    def test_python_is_described_without_being_imported(self):
        made = python_api.pages(ROOT)
        self.assertIn(".. py:function:: allreduce(", made["reference/python/xoe.torch.rst"])
        self.assertIn(":param named_parameters:", made["reference/python/xoe.torch.rst"])
        self.assertIn(".. py:exception:: PeerLostError", made["reference/python/xoe.errors.rst"])

    def test_what_is_wrong_with_a_site_is_found(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "a.html").write_text(EXTERNAL_SCRIPT)
            pathlib.Path(folder, "b.html").write_text('<a href="c.html">c</a>')
            found = list(check_site.problems(folder))
        self.assertEqual(len(found), 3, found)


if __name__ == "__main__":
    unittest.main()
