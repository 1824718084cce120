"""Handwritten digits with Keras 3, on several ranks and any backend:

    KERAS_BACKEND=jax xoe run -np 2 python examples/keras/mnist.py [--data FOLDER]
"""

import argparse

import keras

import xoe.keras as hvd
from xoe.examples import digits

parser = argparse.ArgumentParser(description="Learns to read digits, on several ranks: MNIST's, or some that it draws.")
parser.add_argument("--data", metavar="FOLDER", help="MNIST's idx files; without it, digits are drawn")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--lr", type=float, default=1e-3, help="for one rank; multiplied by their number")
args = parser.parse_args()

hvd.init()
(images, labels), test = digits.load(args.data)
batches = len(images) // hvd.size() // 32  # the same number on every rank
own = slice(hvd.rank(), batches * 32 * hvd.size(), hvd.size())

model = keras.Sequential(
    [
        keras.layers.Input((28, 28, 1)),
        keras.layers.Conv2D(16, 5, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(32, 5, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(args.lr * hvd.size())),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(
    images[own],
    labels[own],
    batch_size=32,
    epochs=args.epochs,
    callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(args.lr * hvd.size(), warmup_epochs=1),
        hvd.callbacks.ThroughputCallback(32),
    ],
    verbose=2 if hvd.rank() == 0 else 0,
)
_, accuracy = model.evaluate(test[0][hvd.rank() :: hvd.size()], test[1][hvd.rank() :: hvd.size()], verbose=0)
accuracy = float(hvd.allreduce(accuracy))
if hvd.rank() == 0:
    print(f"accuracy {accuracy:.2%} on {keras.backend.backend()}, {hvd.size()} ranks", flush=True)
