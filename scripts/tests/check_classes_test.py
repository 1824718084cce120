"""Shows that scripts/check_classes.py measures classes over their files, their data members, and functions."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
sys.dont_write_bytecode = True
import check_classes


def in_tree(files, do):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return do(pathlib.Path(folder))


def violations(files):
    return in_tree(files, lambda root: check_classes.violations(check_classes.measure(root)[1]))


def sizes(files):
    """{class: lines over its files}."""
    return {(c.path, c.name): c.lines for c in in_tree(files, check_classes.measure)[0]}


def declared(members="", name="Ring"):
    return f"#pragma once\n\nnamespace xoe {{\n\nclass {name} {{\n public:\n  void run(int n);\n\n private:\n{members}}};\n\n}}  // namespace xoe\n"


def function(lines, name="Ring::run"):
    """A member function of so many lines."""
    return f"void {name}(int n) {{\n" + "  step(n);\n" * (lines - 2) + "}\n"


class ClassSize(unittest.TestCase):
    def test_members_in_several_files_add_up(self):
        halves = {f"core/comm/{half}.cc": "".join(function(50) for _ in range(5)) for half in ("ring", "ring_more")}
        alone = sizes({"core/comm/ring.h": declared()})["core/comm/ring.h", "Ring"]
        self.assertEqual(sizes({"core/comm/ring.h": declared(), **halves})["core/comm/ring.h", "Ring"], alone + 500)

    def test_free_functions_do_not_count(self):
        free = "".join(function(50, "run") for _ in range(20))
        self.assertEqual(sizes({"core/comm/ring.h": declared(), "core/comm/ring.cc": free}), sizes({"core/comm/ring.h": declared()}))

    def test_classes_of_one_name_are_told_apart(self):
        def fill(folder):
            return {f"core/{folder}/ring.h": declared(), f"core/{folder}/ring.cc": "".join(function(50) for _ in range(6))}

        both = sizes({**fill("comm"), **fill("engine")})
        self.assertEqual(both["core/comm/ring.h", "Ring"], both["core/engine/ring.h", "Ring"])

    def test_a_nested_class_has_its_own_size(self):
        text = declared("  struct Slot {\n    int a_ = 0;\n  };\n  int b_ = 0;\n")
        classes, _ = in_tree({"core/comm/ring.h": text}, check_classes.measure)
        self.assertEqual({c.name: c.members for c in classes}, {"Ring": 1, "Ring::Slot": 1})

    def test_the_largest_are_shown(self):
        files = {f"{folder}/{name}.h": declared("  int a_;\n" * members, name) for folder, name, members in
                 (("core/comm", "Small", 2), ("core/comm", "Large", 40), ("core/tests", "Test", 90))}
        shown = list(check_classes.largest(in_tree(files, check_classes.measure)[0], 1))
        self.assertEqual([line.split()[-2] for line in shown], ["Large", "Large"])

    def test_braces_in_literals_are_text(self):
        text = 'void Ring::run(int n) {\n  say("{ }}", \'{\');  // {\n}\n'
        self.assertEqual(violations({"core/comm/ring.h": declared(), "core/comm/ring.cc": text + function(10)}), [])
        classes, functions = in_tree({"core/comm/ring.h": declared(), "core/comm/ring.cc": text + function(10)}, check_classes.measure)
        self.assertEqual([f.lines for f in functions], [3, 10])
        self.assertEqual([c.lines for c in classes], [7 + 13 - 1])


class DataMembers(unittest.TestCase):
    def count(self, members):
        classes, _ = in_tree({"core/comm/ring.h": declared(members)}, check_classes.measure)
        return classes[0].members

    def test_what_counts(self):
        self.assertEqual(self.count("  int a_;\n  int b_ = 3;\n  std::atomic<int> c_{0};\n  int d_[4];\n"
                                    "  std::function<void(int)> e_;\n  std::array<Slot, 16> f_{};\n"), 6)

    def test_what_does_not(self):
        self.assertEqual(self.count("  int size() const { return size_; }\n  static constexpr int kMost = 3;\n  using A = B;\n"
                                    "  void run(int n_);\n  bool done() const noexcept {\n    return done_;\n  }\n"), 0)


class Functions(unittest.TestCase):
    def test_length(self):
        self.assertEqual(violations({"core/comm/a.cc": function(60, "run")}), [])
        found = violations({"core/comm/a.cc": "\n" + function(61, "run")})
        self.assertEqual(found, ["core/comm/a.cc:2: function run has 61 lines; at most 60"])


if __name__ == "__main__":
    unittest.main()
