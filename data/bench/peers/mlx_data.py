"""mlx-data over loose files; it has no normalisation of its own, so numpy does it, a batch at a time, in its threads.

mlx_data.py files SET [options of measuring.py]
"""

import mlx.data as dx
import numpy
from measuring import AREA, ATTEMPTS, DEVIATION, MEAN, RATIO, image_files, measure, parse_arguments


def normalisation(size):
    """Whole planes of factors: numpy is twice as fast with them as with three numbers."""
    shape = (size, size, 3)

    def spread(values):
        return numpy.ascontiguousarray(numpy.broadcast_to(numpy.array(values, numpy.float32), shape))

    scale = spread([1 / (255 * d) for d in DEVIATION])
    shift = spread([m / d for m, d in zip(MEAN, DEVIATION, strict=True)])

    def normalise(batch):
        pixels = batch.astype(numpy.float32)
        pixels *= scale
        pixels -= shift
        return pixels

    return normalise


def main():
    arguments = parse_arguments(["files"])
    size = arguments.image_size

    def make_batches():
        entries = [{"image": path.encode(), "label": label} for path, label in image_files(arguments)]
        stream = (
            dx.buffer_from_vector(entries)
            .shuffle()
            .to_stream()
            .repeat(1_000_000)
            .load_image("image")
            .image_random_area_crop("image", AREA, RATIO, ATTEMPTS)
            .image_resize("image", size, size)
            .image_random_h_flip("image", 0.5)
            .batch(arguments.batch)
            .key_transform("image", normalisation(size))
            .prefetch(2 * arguments.threads, arguments.threads)
        )
        return iter(stream)

    def touch(batch):
        return batch["image"][0, 0, 0, 0], len(batch["image"])

    measure("mlx-data", arguments, make_batches, touch)


if __name__ == "__main__":
    main()
