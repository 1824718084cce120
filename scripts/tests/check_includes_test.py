"""Shows that scripts/check_includes.py catches what it is there to catch, and leaves the rest alone."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
sys.dont_write_bytecode = True
import check_includes
from houses import HOUSES


def violations(files):
    """The violations in a tree made of {path: text}."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return check_includes.check_tree(folder)


def include(path, header):
    return violations({path: f"#include {header}\n"})


def including(path, header, **rules):
    """`path` includes `header`, which is there; a rule's key is the folder whose CMakeLists.txt has it, with __ for /."""
    lists = {f"{folder.replace('__', '/')}/CMakeLists.txt": f"{text}\n" for folder, text in rules.items()}
    return violations({path: f'#include "{header}"\n', header: "", **lists})


class Direction(unittest.TestCase):
    def test_a_folder_includes_itself(self):
        self.assertEqual(including("core/base/a.cc", "core/base/b.h"), [])

    def test_a_folder_includes_what_its_line_says(self):
        for rule in ("# uses: core/base", "set(a b)\n# uses: core/base\nset(c d)"):
            self.assertEqual(including("core/comm/a.cc", "core/base/b.h", core__comm=rule), [], rule)
        self.assertEqual(including("core/comm/a.cc", "core/base/b.h", core="# comm uses: core/base"), [])
        self.assertEqual(including("core/comm/a.cc", "core/base/cpu/b.h", core__comm="# uses: core/base/..."), [])
        self.assertEqual(including("core/comm/a.cc", "core/comm/deep/b.h", core__comm="# uses: core/comm/deep"), [])

    def test_it_includes_nothing_else(self):
        found = including("core/comm/a.cc", "core/base/b.h", core__comm="# uses: core/comm/more")
        self.assertEqual(found[0], "core/comm/CMakeLists.txt:1: no such folder: core/comm/more")
        self.assertEqual(found[1], "core/comm/a.cc:1: core/comm may not include core/base (core/comm/CMakeLists.txt:1): core/base/b.h")
        # A folder below is another one, and so is the one above.
        self.assertEqual(len(including("core/comm/a.cc", "core/base/cpu/b.h", core__comm="# uses: core/base")), 2)
        self.assertEqual(len(including("core/comm/deep/a.cc", "core/comm/b.h", core__comm="# uses: core/comm/deep")), 2)

    def test_a_folder_without_a_line_is_told_once(self):
        found = violations({"core/comm/a.cc": '#include "core/base/a.h"\n#include "core/base/a.h"\n', "core/base/a.h": ""})
        self.assertEqual(found, ["core/comm/a.cc:1: no line says what core/comm may include (`# uses: ...` in a CMakeLists.txt)"])

    def test_a_name_without_a_folder_is_of_a_file_beside(self):
        found = violations({"core/comm/a.cc": '#include "b.h"\n#include "c.h"\n#include "target.h"\n', "core/comm/b.h": "", "examples/c.h": ""})
        self.assertEqual(found, ["core/comm/a.cc:2: no file c.h is beside it: say which folder's it is"])

    def test_an_unused_name_is_taken_off(self):
        found = violations({"core/comm/CMakeLists.txt": "# uses: core/base\n", "core/base/a.h": ""})
        self.assertEqual(found, ["core/comm/CMakeLists.txt:1: core/comm includes nothing of core/base: take it off the line"])

    def test_a_second_line_is_refused(self):
        found = violations({"core/comm/CMakeLists.txt": "# uses: core/base\n", "core/CMakeLists.txt": "# comm uses: core/base\n",
                            "core/comm/a.cc": '#include "core/base/a.h"\n', "core/base/a.h": ""})
        self.assertEqual(found, ["core/comm/CMakeLists.txt:1: a second rule for core/comm"])

    def test_no_house_includes_one_above(self):
        for number, house in enumerate(HOUSES[:-1]):
            above = HOUSES[number + 1]
            found = including(f"{house}/x/a.cc", f"{above}/y/a.h", **{f"{house}__x": f"# uses: {above}/y"})
            self.assertIn(f"{house}/x/a.cc:1: the house {house} must not include {above}, which stands on it: {above}/y/a.h", found)
            self.assertEqual(including(f"{above}/x/a.cc", f"{house}/y/a.h", **{f"{above}__x": f"# uses: {house}/y"}), [])

    def test_tests_have_one_line(self):
        for path in ("core/tests/a.cc", "core/tests/comm/a.cc", "core/tests/comm/deep/a.cc"):
            self.assertEqual(including(path, "core/base/b.h", core__tests="# uses: core/base"), [], path)
        self.assertEqual(including("core/tests/comm/a.cc", "core/tests/engine/b.h"), [])

    def test_public_headers_stand_for_their_part(self):
        status, engine = "core/include/xoe/status.h", "core/include/xoe/engine.h"
        for path, header, rule in (
            ("core/base/a.cc", "xoe/status.h", "# uses: core/reduce"),
            ("core/comm/a.cc", "xoe/engine.h", "# uses: core/engine"),
            ("core/engine/a.cc", "xoe/engine.h", ""),
        ):
            lists = {f"{pathlib.PurePath(path).parent}/CMakeLists.txt": rule}
            files = {path: f'#include "{header}"\n', status: "", engine: "", "core/engine/b.h": "", "core/reduce/b.h": "", **lists}
            self.assertEqual([line for line in violations(files) if "take it off" not in line], [], path)
        found = violations({"core/comm/a.cc": '#include "xoe/engine.h"\n', engine: "", "core/comm/CMakeLists.txt": "# uses: core/base\n",
                            "core/base/a.h": ""})
        self.assertIn("core/comm/a.cc:1: core/comm may not include core/engine (core/comm/CMakeLists.txt:1): xoe/engine.h", found)


class Cycles(unittest.TestCase):
    def test_of_files_in_each_house(self):
        for house in HOUSES:
            files = {f"{house}/x/a.h": f'#include "{house}/x/b.h"\n', f"{house}/x/b.h": "", f"{house}/x/b.cc": f'#include "{house}/x/b.h"\n'}
            self.assertEqual(violations(files), [], house)
            files[f"{house}/x/b.cc"] += f'#include "{house}/x/a.h"\n'
            self.assertEqual([line.split(":")[2] for line in violations(files)], [" a cycle of files"], house)

    def test_of_folders_in_each_house(self):
        for house in HOUSES:
            files = {f"{house}/x/a.h": f'#include "{house}/y/b.h"\n', f"{house}/y/b.h": "", f"{house}/y/c.h": f'#include "{house}/x/d.h"\n',
                     f"{house}/x/d.h": "", f"{house}/CMakeLists.txt": f"# x uses: {house}/y\n# y uses: {house}/x\n"}
            found = violations(files)
            self.assertEqual(len(found), 1, found)
            self.assertIn(f"a cycle of folders: {house}/x, {house}/y ({house}/x/a.h includes {house}/y/b.h; ", found[0])

    def test_a_folder_and_one_below_it(self):
        files = {"core/x/a.h": '#include "core/x/y/b.h"\n', "core/x/y/b.h": "", "core/CMakeLists.txt": "# x uses: core/x/y\n# x/y uses: core/x\n"}
        self.assertEqual([line for line in violations(files) if "take it off" not in line], [])
        files |= {"core/x/c.h": "", "core/x/y/d.h": '#include "core/x/c.h"\n'}
        self.assertIn("a cycle of folders: core/x, core/x/y", violations(files)[0])

    def test_of_modules(self):
        package = "frameworks/python/xoe"
        files = {f"{package}/__init__.py": "from .a import x\n", f"{package}/a.py": "import os\n", f"{package}/b.py": "from xoe.a import y\n"}
        self.assertEqual(violations(files), [])
        for back in ("from . import b", "from .b import z", "import xoe.b", "def f():\n    from xoe.b import z"):
            self.assertIn("a cycle of files: frameworks/python/xoe/a, frameworks/python/xoe/b", violations(files | {f"{package}/a.py": back})[0])
        checked = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from xoe.b import z\n"
        self.assertEqual(violations(files | {f"{package}/a.py": checked}), [])


class Vendors(unittest.TestCase):
    def test_each_family_has_its_home(self):
        for home, elsewhere, header in [
            ("core/reduce/a.cc", "core/base/a.cc", "<hwy/highway.h>"),
            ("data/a.cc", "launch/a.cc", "<jpeglib.h>"),
            ("data/a.cc", "core/a.cc", "<protozero/pbf_reader.hpp>"),
            ("pool/cli/a.cc", "launch/a.cc", "<CLI/CLI.hpp>"),
            ("core/bench/a.cc", "core/comm/a.cc", "<mpi.h>"),
            ("train/networks/a.cc", "core/engine/a.cc", "<torch/torch.h>"),
            ("frameworks/libtorch/a.cc", "data/cli/xoe_data.cc", "<ATen/ATen.h>"),
        ]:
            self.assertEqual(include(home, header), [], (home, header))
            self.assertEqual(len(include(elsewhere, header)), 1, (elsewhere, header))

    def test_our_torch_headers_are_no_vendor(self):
        self.assertEqual(include("train/a.cc", "<xoe/torch/optimizer.h>"), [])


class PublicHeaders(unittest.TestCase):
    def test_only_ours_and_the_standard_library(self):
        for folder in ("core/include", "data/include"):
            for header in ["<vector>", "<cstdint>", '"xoe/status.h"', "<tl/expected.hpp>"]:
                self.assertEqual(include(f"{folder}/xoe/a.h", header), [], header)
            for header in ["<fmt/format.h>", '"core/base/error.h"', "<sys/mman.h>", "<unistd.h>"]:
                self.assertEqual(len(include(f"{folder}/xoe/a.h", header)), 1, header)

    def test_the_c_header_sees_c(self):
        for path in ("frameworks/c/include/xoe/c.h", "frameworks/c/include/xoe/c_data.h"):
            self.assertEqual(include(path, "<stdint.h>"), [])
            self.assertEqual(len(include(path, "<vector>")), 1, path)
        self.assertEqual(len(include("core/include/xoe/a.h", "<stdint.h>")), 1)


class Text(unittest.TestCase):
    def test_marks(self):
        self.assertEqual(len(violations({"core/base/a.cc": "// TO" "DO: finish\n"})), 1)
        self.assertEqual(violations({"core/base/a.cc": 'char name[] = "/tmp/x.XXXXXX";\n'}), [])

    def test_machine_paths(self):
        self.assertEqual(len(violations({"README.md": "see /ro" "ot/xoe\n"})), 1)
        self.assertEqual(len(violations({"core/base/a.cc": 'open("/ho' 'me/ann/data");\n'})), 1)
        self.assertEqual(violations({"README.md": "https://example.org/work/x and docs/work and data/root\n"}), [])

    def test_links(self):
        page = "[a](docs/a.md) [b](docs/a.md#part) [c](#part) [d](https://example.org/x)\n"
        self.assertEqual(violations({"README.md": page, "docs/a.md": ""}), [])
        self.assertEqual(len(violations({"README.md": page})), 2)
        self.assertEqual(violations({"README.md": f"```cpp\n{page}```\n"}), [])

    def test_the_walk_names_files_that_exist(self):
        walk = "Then `core/base/a.cc` and `hvd.allreduce` go on.\n"
        self.assertEqual(violations({"docs/guide/inside.md": walk, "core/base/a.cc": ""}), [])
        self.assertEqual(len(violations({"docs/guide/inside.md": walk})), 1)


if __name__ == "__main__":
    unittest.main()
