"""Shows that scripts/check_includes.py catches what it is there to catch, and leaves the rest alone."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
sys.dont_write_bytecode = True
import check_includes


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


class Direction(unittest.TestCase):
    def test_downwards_is_allowed(self):
        for path, header in [
            ("core/reduce/a.cc", '"base/error.h"'),
            ("core/backend/shm/a.cc", '"bootstrap/store.h"'),
            ("core/backend/shm/a.cc", '"backend/shm/b.h"'),
            ("core/comm/a.cc", '"backend/shm/b.h"'),
            ("core/engine/a.cc", '"comm/a.h"'),
            ("frameworks/c/a.cc", '"data/a.h"'),
            ("launch/a.cc", '"bootstrap/store.h"'),
            ("frameworks/libtorch/a.cc", '"trace/trace_file.h"'),
            ("core/engine/a.cc", '"trace/trace_file.h"'),
            ("launch/a.cc", '"remote/ssh.h"'),
            ("launch/doctor/a.cc", '"drivers/nvml/nvml.h"'),
            ("tools/a.cc", '"launch/a.h"'),
            ("examples/a.cc", '"xoe/torch.h"'),
            ("core/backend/a.cc", '"xoe/status.h"'),
        ]:
            self.assertEqual(include(path, header), [], (path, header))

    def test_upwards_and_sideways_is_caught(self):
        for path, header in [
            ("core/base/a.cc", '"reduce/reduce.h"'),
            ("core/reduce/a.cc", '"bootstrap/store.h"'),
            ("core/bootstrap/a.cc", '"reduce/reduce.h"'),
            ("core/backend/backend.h", '"comm/a.h"'),
            ("core/comm/a.cc", '"engine/a.h"'),
            ("core/engine/a.cc", '"capi/a.h"'),
            ("core/engine/a.cc", '"xoe/torch/optimizer.h"'),
            ("data/a.cc", '"bootstrap/store.h"'),
            ("launch/a.cc", '"data/a.h"'),
            ("launch/a.cc", '"doctor/a.h"'),
            ("launch/remote/a.cc", '"launch/a.h"'),
            ("core/trace/a.cc", '"engine/a.h"'),
            ("core/drivers/cuda/a.cc", '"backend/a.h"'),
            ("data/a.cc", '"xoe/c_data.h"'),
            ("launch/a.cc", '"xoe/data.h"'),
            ("core/backend/shm/a.cc", '"backend/gloo/b.h"'),
            ("frameworks/libtorch/a.cc", '"data/a.h"'),
            ("examples/a.cc", '"base/fd.h"'),
        ]:
            self.assertEqual(len(include(path, header)), 1, (path, header))


class Vendors(unittest.TestCase):
    def test_each_family_has_its_home(self):
        for home, elsewhere, header in [
            ("core/reduce/a.cc", "core/base/a.cc", "<hwy/highway.h>"),
            ("data/a.cc", "launch/a.cc", "<jpeglib.h>"),
            ("data/a.cc", "tools/a.cc", "<protozero/pbf_reader.hpp>"),
            ("tools/a.cc", "launch/a.cc", "<CLI/CLI.hpp>"),
            ("bench/a.cc", "core/comm/a.cc", "<mpi.h>"),
            ("models/a.cc", "core/engine/a.cc", "<torch/torch.h>"),
            ("frameworks/libtorch/a.cc", "tools/xoe_data.cc", "<ATen/ATen.h>"),
        ]:
            self.assertEqual(include(home, header), [], (home, header))
            self.assertEqual(len(include(elsewhere, header)), 1, (elsewhere, header))

    def test_our_torch_headers_are_no_vendor(self):
        self.assertEqual(include("train/a.cc", "<xoe/torch/optimizer.h>"), [])


class PublicHeaders(unittest.TestCase):
    def test_only_ours_and_the_standard_library(self):
        for header in ["<vector>", "<cstdint>", '"xoe/status.h"', "<tl/expected.hpp>"]:
            self.assertEqual(include("include/xoe/a.h", header), [], header)
        for header in ["<fmt/format.h>", '"base/error.h"', "<sys/mman.h>", "<unistd.h>"]:
            self.assertEqual(len(include("include/xoe/a.h", header)), 1, header)

    def test_the_c_header_sees_c(self):
        for path in ("frameworks/c/include/xoe/c.h", "frameworks/c/include/xoe/c_data.h"):
            self.assertEqual(include(path, "<stdint.h>"), [])
        for path, header in [("frameworks/c/include/xoe/c.h", "<vector>"), ("frameworks/c/include/xoe/c_data.h", "<vector>"), ("include/xoe/a.h", "<stdint.h>")]:
            self.assertEqual(len(include(path, header)), 1, (path, header))


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

    def test_the_line_is_named(self):
        found = violations({"core/base/a.cc": '\n#include "comm/a.h"\n'})
        self.assertTrue(found[0].startswith("core/base/a.cc:2: base must not include comm"), found)


if __name__ == "__main__":
    unittest.main()
