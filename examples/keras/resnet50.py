"""ResNet-50 from TFRecords of images, with Keras 3 on several ranks, through Xoe's input pipeline or through tf.data:

    xoe data make images --images 256 --classes 4 --shards 4          # renders some, where there are none
    xoe run -np 2 python examples/keras/resnet50.py images [--pipeline tf.data] [--image-size 64] [--epochs 2]
"""

import argparse
import pathlib

import keras

import xoe.keras as hvd
from xoe.keras.data import ImageDataset

parser = argparse.ArgumentParser(description="Trains ResNet-50 on TFRecords of images, on several ranks.")
parser.add_argument("data", help="folder with train-* and validation-* files of TFRecords")
parser.add_argument("--pipeline", choices=["xoe", "tf.data"], default="xoe")
parser.add_argument("--batch", type=int, default=16, help="of each rank")
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=1e-3, help="for one rank; multiplied by their number")
args = parser.parse_args()
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def through_tf_data(training, label_offset):
    """The same images in the way of TensorFlow's own guides: interleave files, shard, map in parallel, batch, prefetch."""
    import tensorflow as tf

    pattern = "train-*" if training else "validation-*"
    files = sorted(map(str, pathlib.Path(args.data).glob(pattern)))
    features = {"image/encoded": tf.io.FixedLenFeature([], tf.string), "image/class/label": tf.io.FixedLenFeature([], tf.int64)}
    size = args.image_size

    def decode(record):
        found = tf.io.parse_single_example(record, features)
        encoded, label = found["image/encoded"], found["image/class/label"] - label_offset
        if training:
            whole = tf.image.extract_jpeg_shape(encoded)
            box = tf.zeros([1, 0, 4])
            begin, extent, _ = tf.image.sample_distorted_bounding_box(
                whole, box, area_range=(0.08, 1.0), aspect_ratio_range=(3 / 4, 4 / 3), use_image_if_no_bounding_boxes=True
            )
            window = tf.stack([begin[0], begin[1], extent[0], extent[1]])
            image = tf.image.random_flip_left_right(tf.image.decode_and_crop_jpeg(encoded, window, channels=3))
        else:
            image = tf.image.decode_jpeg(encoded, channels=3)
        image = tf.image.resize(tf.cast(image, tf.float32), (size, size)) / 255
        return (image - MEAN) / DEVIATION, label

    records = tf.data.Dataset.from_tensor_slices(files)
    records = records.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)
    records = records.shard(hvd.size(), hvd.rank())
    if training:
        records = records.shuffle(10000, seed=1)
    images = records.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    return images.batch(args.batch, drop_remainder=training).prefetch(2)


hvd.init()
options = {"batch": args.batch, "image_size": args.image_size, "layout": "nhwc", "seed": 1}
train = ImageDataset(args.data, training=True, **options)
validation = ImageDataset(args.data, training=False, remainder="keep", **options)
classes, batches, held_out = train.images.facts["classes"], len(train), len(validation)
if args.pipeline == "tf.data":
    train, validation = through_tf_data(True, 1).take(batches).repeat(), through_tf_data(False, 1)

model = keras.applications.ResNet50(weights=None, classes=classes, input_shape=(args.image_size, args.image_size, 3))
model.compile(
    optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(args.lr * hvd.size())),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
history = model.fit(
    train,
    epochs=args.epochs,
    steps_per_epoch=batches if args.pipeline == "tf.data" else None,
    callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.ThroughputCallback(args.batch),
    ],
    verbose=2 if hvd.rank() == 0 else 0,
).history
_, accuracy = model.evaluate(validation, steps=held_out if args.pipeline == "tf.data" else None, verbose=0)
accuracy = float(hvd.allreduce(accuracy))
if hvd.rank() == 0:
    loss, speed = history["loss"][-1], history["samples_per_second"][-1]
    print(f"{args.pipeline}: loss {loss:.3f}, held-out accuracy {accuracy:.2%}, {speed:.1f} images/s", flush=True)
