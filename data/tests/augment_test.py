#!/usr/bin/env python3
"""Compares Xoe's changes of images with Pillow's and torchvision's, level by level.

  data/tests/augment_test.py AUGMENT_APPLY

Needs them of requirements/data-peers.txt, which `data/bench/install_peers.sh pytorch` installs, or an interpreter that has
them in XOE_PEERS_PYTHON; ends with 77 where they are not there.
"""

import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "core/testing"))
from peer_python import run_inside

run_inside("pytorch", "torchvision", {"CUDA_VISIBLE_DEVICES": ""})

import make_augment_reference as reference
import numpy
import PIL.Image
import torchvision


def xoe(program, image, changes):
    arguments = [str(image.width), str(image.height)]
    for op, amount in changes:
        arguments += [str(reference.OPS.index(op)), repr(amount)]
    done = subprocess.run([program, *arguments], input=image.tobytes(), stdout=subprocess.PIPE, check=True, timeout=60)
    return numpy.frombuffer(done.stdout, numpy.uint8).reshape(image.height, image.width, 3)


def largest_difference(program, image, changes):
    expected = image
    for op, amount in changes:
        expected = reference.apply(expected, op, amount)
    found = xoe(program, image, changes).astype(int)
    return int(numpy.abs(found - numpy.asarray(expected).astype(int)).max())


def any_amount(op, image, draw):
    if op == "hue":
        return draw.uniform(-0.5, 0.5)
    if op in reference.FACTORS:
        return draw.uniform(0, 2.5)
    table = reference.magnitudes(31, image.width, image.height)
    if op not in table:
        return 0.0
    return draw.choice(table[op]) * (draw.choice([-1, 1]) if op in reference.SIGNED else 1)


def every_colour(program):
    """Hue of every 5th colour by several turns."""
    levels = numpy.arange(0, 256, 5, dtype=numpy.uint8)
    colours = numpy.stack(numpy.meshgrid(levels, levels, levels), axis=3).reshape(levels.size, -1, 3)
    image = PIL.Image.fromarray(numpy.ascontiguousarray(colours), "RGB")
    return max(largest_difference(program, image, [("hue", turns)]) for turns in (0.0, 0.07, -0.41))


def main():
    program = sys.argv[1]
    draw = random.Random(3)
    sizes = [(1, 1), (2, 2), (3, 3), (640, 480), (333, 217), (224, 224), (97, 301), (5, 200), (64, 64)]
    differences = {"every colour": every_colour(program)}
    for image in reference.pictures(sizes, seed=2):
        for op in reference.OPS:
            for _ in range(3):
                difference = largest_difference(program, image, [(op, any_amount(op, image, draw))])
                differences[op] = max(differences.get(op, 0), difference)
        chain = [(op, any_amount(op, image, draw)) for op in draw.sample(reference.OPS, 4)]
        differences["chains"] = max(differences.get("chains", 0), largest_difference(program, image, chain))
    for name, difference in differences.items():
        print(f"{name}: largest difference {difference} levels")
    print(f"Pillow {PIL.__version__}, torchvision {torchvision.__version__}")
    return 1 if any(differences.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
