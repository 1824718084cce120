"""DALI on the CPU: reads record files with an index, decodes the crop alone.

dali.py random-crop SET [options of measuring.py]
"""

from measuring import AREA, ATTEMPTS, DEVIATION, MEAN, RATIO, measure, parse_arguments, record_files
from nvidia.dali import fn, pipeline_def, tfrecord, types


@pipeline_def
def batches_of(arguments):
    files = record_files(arguments)
    index = [str(arguments.set / "index" / path.rsplit("/", 1)[1]) for path in files]
    features = {
        "image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
        "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
    }
    inputs = fn.readers.tfrecord(
        path=files,
        index_path=index,
        features=features,
        random_shuffle=True,
        initial_fill=arguments.shuffle,
        name="reader",
    )
    images = fn.decoders.image_random_crop(
        inputs["image/encoded"],
        output_type=types.RGB,
        random_area=AREA,
        random_aspect_ratio=RATIO,
        num_attempts=ATTEMPTS,
    )
    size = arguments.image_size
    images = fn.resize(images, resize_x=size, resize_y=size, interp_type=types.INTERP_LINEAR, antialias=False)
    images = fn.crop_mirror_normalize(
        images,
        mirror=fn.random.coin_flip(),
        mean=[255 * m for m in MEAN],
        std=[255 * d for d in DEVIATION],
        dtype=types.FLOAT,
        output_layout="CHW",
    )
    return images, inputs["image/class/label"]


def main():
    arguments = parse_arguments(["random-crop"])

    def make_batches():
        pipeline = batches_of(
            arguments, batch_size=arguments.batch, num_threads=arguments.threads, device_id=None, seed=1
        )
        pipeline.build()

        def run():
            while True:
                yield pipeline.run()

        return run()

    def touch(outputs):
        images = outputs[0]
        return images.at(0)[0, 0, 0], len(images)

    measure("DALI", arguments, make_batches, touch)


if __name__ == "__main__":
    main()
