"""The options of the input pipeline: docs/reference/data-options.md is what the library says of them, and so is Python's help.

WRITE_PAGE=1 writes the page again: `WRITE_PAGE=1 XOE_BUILD_DIR=build/release python3 frameworks/tests/python/data_options_test.py`
"""

import json
import os
import pathlib

import ranks

ranks.start(__file__, sizes=(1,))

from xoe import _core, data
from xoe.errors import InvalidArgumentError

PAGE = pathlib.Path(__file__).parents[3] / "docs/reference/data-options.md"
HEAD = """# Options of the input pipeline

The names are the same in C (`xoe_images_options_set()`), in Python
(`xoe.data.Images(directory, batch, flip=False)`) and, as members of `ImagePipelineOptions`, in C++. Texts are
as C takes them: in Python a flag is `True` or `False`, and a list of numbers a tuple; there `threads` is
`auto` unless it is said, and `rank`, `size` and `processes` are those of the job. The library's own tables
make this page.
"""


def page():
    text = HEAD
    for title, options in (("Images", _core.images_options()), ("Records", _core.records_options())):
        text += f"\n## {title}\n"
        group = None
        for option in json.loads(options):
            if option["group"] != group or group is None:
                group = option["group"]
                text += f"\n### {group}\n" if group else ""
                text += "\n| option | default | values |  |\n| -- | -- | -- | -- |\n"
            value = f"`{option['default']}`" if option["default"] else ""
            text += f"| `{option['name']}` | {value} | {option['choices']} | {option['what']} |\n"
    return text


def test_the_page_is_what_the_library_says():
    assert PAGE.read_text() == page(), "write it again: see the top of this file"


def test_help_lists_all_options():
    for kind, options, own in (
        (data.Images, _core.images_options(), {"directory", "batch"}),
        (data.Records, _core.records_options(), set()),
    ):
        names = {option["name"] for option in json.loads(options)}
        assert len(names) > 15
        listed = {
            line.split()[0].split("=")[0] for line in kind.__doc__.splitlines() if line.startswith("  ") and line[2:3].strip()
        }
        assert names - own <= listed, names - own - listed
        assert max(len(line) for line in kind.__doc__.splitlines()) <= 132
    assert '  threads="auto"' in data.Images.__doc__
    assert "  flip=True" in data.Images.__doc__
    assert "  mean=(0.485, 0.456, 0.406)\n" in data.Images.__doc__
    assert "  epochs=1 " in data.Records.__doc__


def test_what_is_wrong_is_told_with_what_is_right():
    for options, words in (
        ({"batch": 0}, "batch (1 to 1048576) is 0"),
        ({"threads": -2}, "threads (0 to 1024, or auto) is -2"),
        ({"validation_share": 1.0}, "validation_share (0 to below 1) is 1"),
        ({"min_area": 0.0}, "min_area (above 0, up to 1) is 0"),
        ({"epochs": "x"}, "option epochs is 'x'; it may be a whole number, 0 or more"),
        ({"layout": "chw"}, "option layout is 'chw'; it may be nchw, nhwc"),
        ({"split": "none"}, "it may be auto, or train, validation, test"),
        ({"nonsense": 1}, "there is no option 'nonsense'; there are directory, format, "),
    ):
        try:
            data.Images("/nowhere", **options)
        except InvalidArgumentError as error:
            assert words in str(error), (words, str(error))
        else:
            raise AssertionError(options)


if os.environ.get("WRITE_PAGE"):
    PAGE.write_text(page())
ranks.call_tests(globals())
