"""Makes conda packages of wheels, as deploy/conda/recipe.yaml says. scripts/conda.sh calls it.

  build.py FOLDER CHANNEL...

FOLDER becomes a channel with them; CHANNELs have what they need. XOE_VERSION, XOE_WHEELS: see the recipe.
"""

import os
import pathlib
import re
import sys

from rattler_build import RattlerBuildError, Stage0Recipe, ToolConfiguration, VariantConfig

RECIPE = pathlib.Path(__file__).with_name("recipe.yaml")


def pythons_of(folder, version):
    """The Python of each wheel for x86-64 in the folder: ["3.11", "3.12"]."""
    wheels = pathlib.Path(folder).glob("xoe-*_x86_64.whl")
    found = {re.match(rf"xoe-{re.escape(version)}-cp3(\d+)-", path.name) for path in wheels}
    return [f"3.{minor}" for minor in sorted(int(match[1]) for match in found if match)]


class Printed:
    """Prints what rattler-build logs, and drops its other events."""

    def on_log(self, event):
        print(event.message, flush=True)

    def __getattr__(self, name):
        if name.startswith("on_"):
            return lambda event: None
        raise AttributeError(name)


def main():
    folder, *channels = sys.argv[1:]
    pythons = pythons_of(os.environ["XOE_WHEELS"], os.environ["XOE_VERSION"])
    if not pythons:
        sys.exit(f"error: no wheel of version {os.environ['XOE_VERSION']} in {os.environ['XOE_WHEELS']}")
    recipe = Stage0Recipe.from_file(RECIPE)
    try:
        recipe.run_build(
            variant_config=VariantConfig({"python": pythons}),
            tool_config=ToolConfiguration(test_strategy="native"),
            output_dir=folder,
            channels=channels,
            progress_callback=Printed(),
        )
    except RattlerBuildError as error:
        sys.exit(f"error: {error}")


main()
