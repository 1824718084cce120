"""Handwritten digits with JAX and optax, on several ranks:

    xoe run -np 2 python examples/jax/mnist.py [--data FOLDER]
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax

import xoe.jax as hvd
from xoe.examples import digits

parser = argparse.ArgumentParser(description="Learns to read digits, on several ranks: MNIST's, or some that it draws.")
parser.add_argument("--data", metavar="FOLDER", help="MNIST's idx files; without it, digits are drawn")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--lr", type=float, default=1e-3, help="for one rank; multiplied by their number")
args = parser.parse_args()


def start(key):
    shapes = {"first": (5, 5, 1, 16), "second": (5, 5, 16, 32), "third": (512, 64), "last": (64, 10)}
    keys = dict(zip(shapes, jax.random.split(key, len(shapes)), strict=True))
    return {name: jax.random.normal(keys[name], shape) * (2 / np.prod(shape[:-1])) ** 0.5 for name, shape in shapes.items()}


def convolve(x, kernel):
    x = jax.nn.relu(jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")))
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def network(params, images):
    x = convolve(convolve(images, params["first"]), params["second"])
    return jax.nn.relu(x.reshape(len(images), -1) @ params["third"]) @ params["last"]


def loss_of(params, images, labels):
    return optax.softmax_cross_entropy_with_integer_labels(network(params, images), labels).mean()


hvd.init()
(images, labels), test = digits.load(args.data)
optimizer = hvd.DistributedOptimizer(optax.adam(args.lr * hvd.size()))
params = hvd.broadcast_parameters(start(jax.random.key(hvd.rank())))
state = optimizer.init(params)


@jax.jit
def step(params, state, images, labels):
    loss, gradients = jax.value_and_grad(loss_of)(params, images, labels)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


@jax.jit
def right(params, images, labels):
    return hvd.allreduce((network(params, images).argmax(1) == labels).mean())


for epoch in range(args.epochs):
    order = np.random.default_rng(epoch).permutation(len(images))[hvd.rank() :: hvd.size()]
    for batch in range(len(images) // hvd.size() // 32):  # the same number on every rank
        chosen = order[batch * 32 : batch * 32 + 32]
        params, state, loss = step(params, state, images[chosen], labels[chosen])
    accuracy = float(right(params, test[0][hvd.rank() :: hvd.size()], test[1][hvd.rank() :: hvd.size()]))
    if hvd.rank() == 0:
        print(f"epoch {epoch + 1}: loss {loss:.3f}, accuracy {accuracy:.2%}, {hvd.size()} ranks", flush=True)
