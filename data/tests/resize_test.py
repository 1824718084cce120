#!/usr/bin/env python3
"""Compares Xoe's evaluation and training images with those of torchvision's v2 transforms, level by level.

  data/tests/resize_test.py RESIZE_APPLY [IMAGES]

Renders IMAGES (default 500) images of five kinds as JPEG and PNG, reduces and enlarges them. Needs what
requirements/data-peers.txt lists for PyTorch, which `data/bench/install_peers.sh pytorch` installs, or an interpreter that has
it in XOE_PEERS_PYTHON; ends with 77 where it is not there.
"""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "core/testing"))
from peer_python import run_inside

run_inside("pytorch", "torchvision", {"CUDA_VISIBLE_DEVICES": ""})

import make_resize_reference as reference
import numpy
import PIL.Image
import PIL.ImageDraw
import PIL.ImageOps
import torch
import torchvision

SIZES = [(224, 224), (224, 224), (96, 160), (65, 40)]
FACTORS = [1.1, 1.3, 1.7, 2.0, 2.4, 3.1, 4.0, 5.3, 0.4, 0.8]
LARGE_FACTORS = [7.0, 9.5, 12.0]


def photo(draw, width, height):
    """Shades with noise of all wavelengths, and blurred shapes."""
    y, x = numpy.mgrid[0:height, 0:width] / max(width, height)
    waves = [
        numpy.sin(6.28 * (draw.uniform(-1, 1) * 2**i * x + draw.uniform(-1, 1) * 2**i * y) + draw.uniform(0, 6)) * 60 / 1.5**i
        for i in range(7)
    ]
    levels = 128 + sum(waves)
    colour = draw.uniform(0.5, 1.2, (1, 1, 3))
    return PIL.Image.fromarray(
        numpy.clip(levels[..., None] * colour + draw.normal(0, 8, (height, width, 3)), 0, 255).astype(numpy.uint8)
    )


def text(draw, width, height):
    image = PIL.Image.new("RGB", (width, height), "white")
    pen = PIL.ImageDraw.Draw(image)
    for line in range(0, height, 12):
        words = "".join(chr(code) for code in draw.integers(33, 126, width // 6))
        pen.text((2, line), words, fill=tuple(int(v) for v in draw.integers(0, 120, 3)))
    return image


def checkerboard(draw, width, height):
    side = int(draw.integers(1, 12))
    y, x = numpy.mgrid[0:height, 0:width]
    board = (x // side + y // side) % 2
    colours = draw.integers(0, 256, (2, 3)) if draw.random() < 0.5 else numpy.array([[0, 0, 0], [255, 255, 255]])
    return PIL.Image.fromarray(colours[board].astype(numpy.uint8))


def lines(draw, width, height):
    image = PIL.Image.new("RGB", (width, height), "white")
    pen = PIL.ImageDraw.Draw(image)
    for _ in range(40):
        points = [(int(draw.integers(0, width)), int(draw.integers(0, height))) for _ in range(2)]
        pen.line(points, fill=tuple(int(v) for v in draw.integers(0, 256, 3)), width=int(draw.integers(1, 4)))
        box = sorted(int(v) for v in draw.integers(0, min(width, height), 2))
        pen.ellipse([box[0], box[0], box[1], box[1]], outline="black")
    return image


def radiograph(draw, width, height):
    """Grey, smooth and dark, with fine bright edges."""
    y, x = numpy.mgrid[0:height, 0:width]
    levels = 200 * numpy.exp(-((x / width - 0.5) ** 2 + (y / height - 0.5) ** 2) * 6)
    for _ in range(8):
        centre, radius = draw.uniform(0.2, 0.8), draw.uniform(0.1, 0.4)
        levels += 60 * (numpy.abs((x / width - 0.5) ** 2 + (y / height - centre) ** 2 - radius**2) < 0.004)
    return PIL.Image.fromarray(numpy.clip(levels + draw.normal(0, 3, levels.shape), 0, 255).astype(numpy.uint8), "L")


SOURCES = [photo, text, checkerboard, lines, radiograph]


def render(folder, count):
    """Files of odd and large sizes, each with the size that it is resized to."""
    draw = numpy.random.default_rng(8)
    for index in range(count):
        source = SOURCES[index % len(SOURCES)]
        size = SIZES[index // 5 % len(SIZES)]
        factor = LARGE_FACTORS[index // 7 % 3] if index % 12 == 0 else FACTORS[index // 3 % len(FACTORS)]
        height, width = (max(3, int(side * factor * draw.uniform(1.0, 1.4))) for side in size)
        image = source(draw, width, height)
        path = folder / f"{index}.{'png' if index % 4 == 3 else 'jpg'}"
        if path.suffix == ".png":
            image.save(path, compress_level=1)
        else:
            exif = PIL.Image.Exif()
            exif[274] = 1 + index % 8
            image.save(path, quality=[75, 90, 97][index % 3], subsampling=[0, 1, 2][index % 3], exif=exif)
        yield path, list(size)


def jobs_of(path, size, index):
    """(interpolation, antialias, orientation, key) of what is compared for one image; a key of -1: evaluation."""
    turned = index % 5 == 2
    for interpolation in reference.modes():
        yield interpolation, True, turned, -1
        yield interpolation, True, turned, 2 * index
    yield "bilinear", False, turned, 3 * index
    yield "bicubic", False, turned, 3 * index + 1


def made_by_xoe(program, jobs):
    text_of_jobs = "".join(
        f"{size[0]} {size[1]} {interpolation} {int(antialias)} {int(turned)} 0 {key} {path}\n"
        for path, size, (interpolation, antialias, turned, key) in jobs
    )
    done = subprocess.run([program], input=text_of_jobs.encode(), stdout=subprocess.PIPE, check=True, timeout=300)
    at = 0
    for _, size, _ in jobs:
        crop = numpy.frombuffer(done.stdout, numpy.int32, 5, at).tolist()
        count = 3 * size[0] * size[1]
        yield crop, numpy.frombuffer(done.stdout, numpy.uint8, count, at + 20).reshape(size[0], size[1], 3)
        at += 20 + count


def main():
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    torch.set_num_threads(1)
    worst, sums, compared = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for index, (path, size) in enumerate(render(pathlib.Path(folder), count)):
            stored = PIL.Image.open(path)
            jobs = [(path, size, job) for job in jobs_of(path, size, index)]
            images = {False: stored.convert("RGB"), True: PIL.ImageOps.exif_transpose(stored).convert("RGB")}
            for (_, _, job), (crop, pixels) in zip(jobs, made_by_xoe(program, jobs), strict=True):
                interpolation, antialias, turned, key = job
                image = images[turned]
                expected = (
                    reference.evaluate(image, size, interpolation, antialias)
                    if key < 0
                    else reference.train(image, crop, size, interpolation, antialias)
                )
                differences = numpy.abs(pixels.astype(int) - expected.astype(int))
                name = (
                    SOURCES[index % 5].__name__,
                    "evaluation" if key < 0 else "training",
                    interpolation,
                    "antialias" if antialias else "no antialias",
                )
                worst[name] = max(worst.get(name, 0), int(differences.max()))
                sums[name] = sums.get(name, 0) + float(differences.mean())
                compared[name] = compared.get(name, 0) + 1
                if differences.max() > 1:
                    print(
                        f"{index}: {name}, {image.width} x {image.height} to {size}, crop {crop}, turned {turned}: "
                        f"{differences.max()} levels",
                        flush=True,
                    )
            path.unlink()
    for name in sorted(worst):
        print(
            f"{', '.join(name)}: at most {worst[name]} levels, {sums[name] / compared[name]:.4f} on average, "
            f"{compared[name]} images"
        )
    print(f"Pillow {PIL.__version__}, torchvision {torchvision.__version__}")
    return 1 if any(difference > 1 for difference in worst.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
