#!/usr/bin/env python3
"""What torchvision makes of small images: the reference of the resizing tests.

  data/tests/make_resize_reference.py data/tests/reference/resize.json

Run it with build/peers/data-pytorch/bin/python (data/bench/install_peers.sh pytorch). resize_test.py compares live with the
same functions: v2's Resize, CenterCrop and resized_crop on uint8 tensors, and on Pillow's images for BOX, which tensors lack.
"""

import json
import sys


def modes():
    from torchvision.transforms import InterpolationMode

    return {"bilinear": InterpolationMode.BILINEAR, "bicubic": InterpolationMode.BICUBIC, "area": InterpolationMode.BOX}


def resized_size(height, width, size):
    """What an image is resized to before its centre of `size` is cropped, and Resize()'s argument for that."""
    rows, columns = (round(side * 8 / 7) for side in size)
    if rows == columns:
        return [rows]  # the shorter side
    if width * rows >= height * columns:
        return [rows, rows * width // height]
    return [columns * height // width, columns]


def to_tensor(image):
    from torchvision.transforms.v2 import functional

    return functional.pil_to_tensor(image)


def to_rows(image):
    """A PIL image or a tensor as [height, width, 3]."""
    import numpy
    import torch

    return image.permute(1, 2, 0).numpy() if isinstance(image, torch.Tensor) else numpy.asarray(image)


def evaluate(image, size, interpolation, antialias=True):
    """Resize() and CenterCrop() of a PIL image."""
    from torchvision.transforms import v2

    source = image if interpolation == "area" else to_tensor(image)
    resize = v2.Resize(resized_size(image.height, image.width, size), modes()[interpolation], antialias=antialias)
    return to_rows(v2.CenterCrop(size)(resize(source)))


def train(image, crop, size, interpolation, antialias=True):
    """RandomResizedCrop() and RandomHorizontalFlip() with a crop that was drawn: x, y, width, height, flip."""
    from torchvision.transforms.v2 import functional

    x, y, width, height, flip = crop
    source = image if interpolation == "area" else to_tensor(image)
    made = functional.resized_crop(source, y, x, height, width, list(size), modes()[interpolation], antialias)
    return to_rows(functional.horizontal_flip(made) if flip else made)


def pictures():
    """Noise, a checkerboard, and smooth shades, as PIL images."""
    import numpy
    from PIL import Image

    random = numpy.random.default_rng(4)
    noise = random.integers(0, 256, (37, 53, 3))
    y, x = numpy.mgrid[0:61, 0:45]
    board = numpy.stack([255 * ((x // 3 + y // 5) % 2), 255 * ((x // 4 + y // 2) % 2), 255 * ((x + y) % 2)], axis=2)
    y, x = numpy.mgrid[0:24, 0:31]
    shades = numpy.stack([8 * x, 10 * y, 255 - 4 * (x + y)], axis=2)
    return [Image.fromarray(pixels.astype(numpy.uint8), "RGB") for pixels in (noise, board, shades)]


def main():
    images, cases = [], []
    for index, image in enumerate(pictures()):
        images.append({"width": image.width, "height": image.height, "pixels": image.tobytes().hex()})
        crops = [None, [3, 5, image.width - 10, image.height - 7, 0], [1, 2, 7, 6, 1]]
        for interpolation in modes():
            for size in ([14, 14], [7, 21], [26, 20]):
                for crop in crops:
                    made = evaluate(image, size, interpolation) if crop is None else train(image, crop, size, interpolation)
                    cases.append(
                        {
                            "image": index,
                            "interpolation": interpolation,
                            "antialias": True,
                            "size": size,
                            "crop": crop,
                            "pixels": made.tobytes().hex(),
                        }
                    )
        for interpolation in ("bilinear", "bicubic"):
            for crop in crops[1:]:
                made = train(image, crop, [14, 14], interpolation, antialias=False)
                cases.append(
                    {
                        "image": index,
                        "interpolation": interpolation,
                        "antialias": False,
                        "size": [14, 14],
                        "crop": crop,
                        "pixels": made.tobytes().hex(),
                    }
                )
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump({"images": images, "cases": cases}, out, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    main()
