"""Handwritten digits with a loop of one's own in TensorFlow, on several ranks:

    xoe run -np 2 python examples/tensorflow/mnist.py [--data FOLDER]
"""

import argparse

import tensorflow as tf

import xoe.tensorflow as hvd
from xoe.examples import digits

parser = argparse.ArgumentParser(description="Learns to read digits, on several ranks: MNIST's, or some that it draws.")
parser.add_argument("--data", metavar="FOLDER", help="MNIST's idx files; without it, digits are drawn")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--lr", type=float, default=1e-3, help="for one rank; multiplied by their number")
args = parser.parse_args()

hvd.init()
train, test = digits.load(args.data)
dataset = tf.data.Dataset.from_tensor_slices(train).shuffle(len(train[0]), seed=0).shard(hvd.size(), hvd.rank()).batch(32)
batches = len(train[0]) // hvd.size() // 32  # the same number on every rank

model = tf.keras.Sequential(
    [
        tf.keras.layers.Input((28, 28, 1)),
        tf.keras.layers.Conv2D(16, 5, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Conv2D(32, 5, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(10),
    ]
)
optimizer = tf.keras.optimizers.Adam(args.lr * hvd.size())
optimizer.build(model.trainable_variables)
hvd.broadcast_variables([variable.value for variable in [*model.variables, *optimizer.variables]], root_rank=0)


@tf.function
def step(images, labels):
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@tf.function
def right(images, labels):
    found = tf.argmax(model(images, training=False), axis=1, output_type=labels.dtype)
    return hvd.allreduce(tf.reduce_mean(tf.cast(found == labels, tf.float32)))


for epoch in range(args.epochs):
    for images, labels in dataset.take(batches):
        loss = step(images, labels)
    accuracy = float(right(test[0][hvd.rank() :: hvd.size()], test[1][hvd.rank() :: hvd.size()]))
    if hvd.rank() == 0:
        print(f"epoch {epoch + 1}: loss {loss:.3f}, accuracy {accuracy:.2%}, {hvd.size()} ranks", flush=True)
