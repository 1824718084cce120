#!/usr/bin/env python3
"""What Pillow and torchvision make of small images: the reference of the augmentation tests.

  data/tests/make_augment_reference.py data/tests/reference/augment.json

Run it with build/peers/data-pytorch/bin/python (data/bench/install_peers.sh pytorch). augment_test.py compares
live with the same functions.
"""

import json
import sys

OPS = ["identity", "shear_x", "shear_y", "translate_x", "translate_y", "rotate", "brightness", "saturation", "contrast",
       "sharpness", "posterize", "solarize", "auto_contrast", "equalize", "hue"]  # as enum PixelOp
SIGNED = OPS[1:6]
FACTORS = OPS[6:10]
TORCHVISION_NAMES = {"identity": "Identity", "shear_x": "ShearX", "shear_y": "ShearY", "translate_x": "TranslateX",
                     "translate_y": "TranslateY", "rotate": "Rotate", "brightness": "Brightness",
                     "saturation": "Color", "contrast": "Contrast", "sharpness": "Sharpness",
                     "posterize": "Posterize", "solarize": "Solarize", "auto_contrast": "AutoContrast",
                     "equalize": "Equalize"}


def apply(image, op, amount):
    """A PIL image changed by one PixelChange."""
    from torchvision.transforms import InterpolationMode, autoaugment, functional
    if op == "hue":
        return functional.adjust_hue(image, amount)
    magnitude = amount - 1.0 if op in FACTORS else amount
    return autoaugment._apply_op(image, TORCHVISION_NAMES[op], magnitude, InterpolationMode.NEAREST, None)


def magnitudes(bins, width, height):
    """For each operation the amounts of RandAugment's bins."""
    from torchvision.transforms import RandAugment
    space = RandAugment(num_magnitude_bins=bins)._augmentation_space(bins, (height, width))
    return {op: [float(v) for v in space[name][0].reshape(-1)] for op, name in TORCHVISION_NAMES.items()
            if space[name][0].ndim > 0}


def pictures(sizes, seed=1):
    """Noise, smooth shades, and few levels, as PIL images."""
    import numpy
    from PIL import Image
    random = numpy.random.default_rng(seed)
    for index, (width, height) in enumerate(sizes):
        if index % 3 == 0:
            pixels = random.integers(0, 256, (height, width, 3))
        elif index % 3 == 1:
            x, y = numpy.meshgrid(numpy.arange(width), numpy.arange(height))
            pixels = numpy.stack([40 + 150 * x // width, 30 + 180 * y // height, 200 - 100 * x // width], axis=2)
        else:
            pixels = random.integers(3, 6, (height, width, 3)) * 40
        yield Image.fromarray(pixels.astype(numpy.uint8), "RGB")


def amounts(op, width):
    if op in ("shear_x", "shear_y"):
        return [0.09, -0.3]
    if op in ("translate_x", "translate_y"):
        return [width * 0.13, -3.9]
    if op == "rotate":
        return [9.0, -30.0]
    if op in FACTORS:
        return [0.1, 0.73, 1.0, 1.9]
    return {"posterize": [4.0, 7.0], "solarize": [178.5, 0.0], "hue": [0.1, -0.5, 0.31]}.get(op, [0.0])


def mixing_cases():
    """A batch and its labels, mixed with torchvision's arithmetic: each image with the one before it."""
    import torch
    generator = torch.Generator().manual_seed(5)
    images = torch.randn((3, 2, 5, 7), generator=generator)
    labels = torch.nn.functional.one_hot(torch.tensor([1, 0, 3]), num_classes=4).float()
    from torchvision.transforms.v2 import CutMix, MixUp
    cases = []
    for share in (0.0, 0.3, 1.0):
        mixup = MixUp(num_classes=4)
        params = {"labels": None, "lam": share, "batch_size": 3}
        cases.append({"kind": "mixup", "share": share, "images": mixup.transform(images, params).flatten().tolist(),
                      "labels": mixup._mixup_label(labels, lam=share).flatten().tolist()})
    for box in ((1, 2, 4, 5), (0, 0, 7, 5), (3, 3, 3, 3)):
        x1, y1, x2, y2 = box
        share = 1.0 - (x2 - x1) * (y2 - y1) / 35
        cutmix = CutMix(num_classes=4)
        params = {"labels": None, "box": box, "lam_adjusted": share, "batch_size": 3}
        cases.append({"kind": "cutmix", "share": share, "box": [x1, y1, x2 - x1, y2 - y1],
                      "images": cutmix.transform(images, params).flatten().tolist(),
                      "labels": cutmix._mixup_label(labels, lam=share).flatten().tolist()})
    return {"shape": [3, 2, 5, 7], "images": images.flatten().tolist(), "labels": labels.flatten().tolist(),
            "cases": cases}


def erasing_cases():
    import torch
    from torchvision.transforms import functional
    image = torch.arange(2 * 5 * 7, dtype=torch.float32).reshape(2, 5, 7)
    cases = []
    for x, y, width, height in ((0, 0, 3, 2), (2, 1, 5, 4)):
        erased = functional.erase(image, y, x, height, width, torch.tensor([[[0.5]]]))
        cases.append({"box": [x, y, width, height], "value": 0.5, "image": erased.flatten().tolist()})
    return {"shape": [2, 5, 7], "image": image.flatten().tolist(), "cases": cases}


def main():
    images = list(pictures([(24, 20), (17, 13), (20, 11)]))
    cases = []
    for index, image in enumerate(images):
        for op in OPS:
            for amount in amounts(op, image.width):
                result = apply(image, op, amount)
                cases.append({"image": index, "op": OPS.index(op), "amount": amount, "pixels": result.tobytes().hex()})
    reference = {
        "images": [{"width": i.width, "height": i.height, "pixels": i.tobytes().hex()} for i in images],
        "cases": cases,
        "magnitudes": [{"bins": bins, "width": 500, "height": 375,
                        "amounts": {str(OPS.index(op)): values for op, values in magnitudes(bins, 500, 375).items()}}
                       for bins in (31, 10)],
        "mixing": mixing_cases(),
        "erasing": erasing_cases(),
    }
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(reference, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
