"""tf.data: Dell's old and new way, in the order of their snippets, the best configuration known, and reading alone.

tfdata.py old|new|best|records SET [options of measuring.py]
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf
from measuring import AREA, ATTEMPTS, DEVIATION, MEAN, RATIO, measure, parse_arguments, record_files

AUTO = tf.data.AUTOTUNE
BOX = [[[0.0, 0.0, 1.0, 1.0]]]


def parse(record):
    features = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }
    parsed = tf.io.parse_single_example(record, features)
    return parsed["image/encoded"], tf.cast(parsed["image/class/label"], tf.int32)


def draw_crop(shape):
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        shape,
        BOX,
        min_object_covered=0.0,
        area_range=AREA,
        aspect_ratio_range=RATIO,
        max_attempts=ATTEMPTS,
        use_image_if_no_bounding_boxes=True,
    )
    y, x, _ = tf.unstack(begin)
    height, width, _ = tf.unstack(size)
    return y, x, height, width


def finish(image, size):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.resize(image, [size, size], method="bilinear")
    scale = [1 / (255 * d) for d in DEVIATION]
    shift = [m / d for m, d in zip(MEAN, DEVIATION, strict=True)]
    image = image * scale - shift
    image.set_shape([size, size, 3])
    return image


def whole_decode(size):
    """Decodes the image, then crops: as the snippets, which decode in the parser."""

    def work(record):
        encoded, label = parse(record)
        image = tf.image.decode_jpeg(encoded, channels=3)
        y, x, height, width = draw_crop(tf.shape(image))
        return finish(tf.image.crop_to_bounding_box(image, y, x, height, width), size), label

    return work


def crop_decode(size):
    """Decodes the crop alone."""

    def work(record):
        encoded, label = parse(record)
        y, x, height, width = draw_crop(tf.image.extract_jpeg_shape(encoded))
        window = tf.stack([y, x, height, width])
        return finish(tf.image.decode_and_crop_jpeg(encoded, window, channels=3), size), label

    return work


def old_way(files, arguments):
    """Decode, then shard; one file after the other; a shuffle buffer of decoded images; 64 batches ahead."""
    data = tf.data.TFRecordDataset(files)
    data = data.map(whole_decode(arguments.image_size), num_parallel_calls=arguments.threads)
    data = data.shard(arguments.ranks, 0)
    data = data.shuffle(buffer_size=arguments.shuffle)
    data = data.repeat()
    data = data.batch(arguments.batch)
    return data.prefetch(buffer_size=arguments.batch)


def new_way(files, arguments):
    """Shard files first, interleave ten of them, shuffle records, decode into batches."""
    data = tf.data.Dataset.from_tensor_slices(files)
    data = data.shard(arguments.ranks, 0)
    data = data.shuffle(arguments.shuffle)
    data = data.apply(tf.data.experimental.parallel_interleave(tf.data.TFRecordDataset, cycle_length=10))
    data = data.prefetch(buffer_size=arguments.batch)
    data = data.shuffle(arguments.shuffle)
    data = data.repeat()
    return data.apply(
        tf.data.experimental.map_and_batch(
            whole_decode(arguments.image_size), arguments.batch, num_parallel_batches=5, drop_remainder=True
        )
    )


def best_way(files, arguments):
    data = tf.data.Dataset.from_tensor_slices(files)
    data = data.shard(arguments.ranks, 0)
    data = data.shuffle(len(files))
    data = data.interleave(tf.data.TFRecordDataset, cycle_length=8, num_parallel_calls=AUTO, deterministic=False)
    data = data.shuffle(arguments.shuffle)
    data = data.repeat()
    data = data.map(crop_decode(arguments.image_size), num_parallel_calls=AUTO, deterministic=False)
    data = data.batch(arguments.batch, drop_remainder=True)
    return data.prefetch(AUTO)


def read_records(arguments):
    """Records as they are, 100 at a time; `images` counts records."""

    def make_batches():
        data = tf.data.TFRecordDataset(record_files(arguments)).repeat().batch(100)
        return iter(data.prefetch(AUTO))

    def touch(batch):
        return batch.shape[0], batch.shape[0]

    measure("tf.data records", arguments, make_batches, touch)


def main():
    arguments = parse_arguments(["old", "new", "best", "records"])
    if arguments.variant == "records":
        read_records(arguments)
    ways = {"old": old_way, "new": new_way, "best": best_way}

    def make_batches():
        options = tf.data.Options()
        options.threading.private_threadpool_size = arguments.threads
        options.deterministic = arguments.variant != "best"
        return iter(ways[arguments.variant](record_files(arguments), arguments).with_options(options))

    def touch(batch):
        images = batch[0].numpy()  # no copy on the CPU
        return images[0, 0, 0, 0], len(images)

    measure(f"tf.data {arguments.variant}", arguments, make_batches, touch)


if __name__ == "__main__":
    main()
