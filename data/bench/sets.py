"""The data sets of the comparison: made once below build/bench-data, used again while their recipe stays the same."""

import json
import shutil
import subprocess
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class ImageSet:
    """Photograph-like JPEGs, 4:2:0, baseline: what `xoe data make` is asked for."""

    name: str
    text: str
    images: int
    width: int
    height: int
    quality: int
    grain_min: float
    grain_max: float
    detail: float = 1.0
    shards: int = 8
    seed: int = 7


SETS = {
    one.name: one
    for one in (
        ImageSet("A", "500x375, quality 90, about 53 KB", 4000, 500, 375, 90, 0.0190, 0.0235),
        ImageSet("B", "500x375, quality 95, about 110 KB", 4000, 500, 375, 95, 0.0480, 0.0580),
        ImageSet("C", "2000x1500, quality 90, about 640 KB", 300, 2000, 1500, 90, 0.0180, 0.0220),
        ImageSet("tiny", "160x120, for trying the comparison itself", 128, 160, 120, 90, 0.0190, 0.0235, shards=2),
    )
}


def record_sizes(folder):
    """(number of records, bytes of all files)."""
    index = sorted((folder / "index").iterdir())
    lengths = [int(line.split()[1]) for path in index for line in path.read_text(encoding="utf-8").splitlines()]
    return len(lengths), sum(lengths)


def make(wanted, programs, root, say):
    """The folder of a set: train-* record files, files/CLASS/*.jpg, index/* for DALI."""
    folder, recipe = root / wanted.name, json.dumps(asdict(wanted))
    stamp = folder / "recipe.json"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == recipe:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    say(f"making {wanted.images} images of set {wanted.name} ({wanted.text}) in {folder}")
    options = {name.replace("_", "-"): value for name, value in asdict(wanted).items() if name not in ("name", "text")}
    words = [word for name, value in {**options, "validation": 0}.items() for word in (f"--{name}", str(value))]
    subprocess.run(
        [programs / "xoe-data", "make", folder, "--plain", "--json", *words], check=True, stdout=subprocess.DEVNULL
    )
    subprocess.run([programs / "xoe_bench_loose", folder, folder], check=True, stdout=subprocess.DEVNULL)
    stamp.write_text(recipe, encoding="utf-8")
    return folder
