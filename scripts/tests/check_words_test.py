"""Shows that scripts/check_words.py finds the words that the glossary replaces, and that the glossary has what it names."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import check_words


def found(line, path="core/a.cc"):
    return [message for _, message in check_words.check_text(path, line)]


class Words(unittest.TestCase):
    def test_old_names_are_found(self):
        for line in ["Board table(memory);", "board_->join();", "class HostsCrew {", "local_crew_.start();", "const Words& words = w;", "guardian_link",
                     "rouse();", "backend.deal(3)", "if (nobody_waits) {} // Nobody waits", "// That of one parameter.",
                     "Result<Ask> ask_of();", "request.takes_turns = 1;", "enum class Wish {", "x; // What is left over.", "# Whoever asks gets it."]:
            self.assertTrue(found(line), line)

    def test_plain_words_pass(self):
        for line in ["TensorBoard opens it", "keyboard", "board_id of a card", "the words of a glossary", "an item of the list", "Running a job",
                     "What is Xoe? A library.", "hn::Lanes(d)", "ideal(x)"]:
            self.assertEqual(found(line), [], line)

    def test_names_of_files_count(self):
        self.assertTrue(found("", path="core/engine/board.cc"))

    def test_the_glossary_has_the_replacements(self):
        glossary = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
        for _, better in check_words.WORDS:
            for word in better.split(" or "):
                if word not in ("plain English", "the field's verb"):
                    self.assertIn(word, glossary)


if __name__ == "__main__":
    unittest.main()
