"""A training over images with a ledger, for elastic_images_test.py and frameworks_elastic_test.py: FRAMEWORK IMAGES LEDGER STOP. The label of
each image is its number, and the model adds up which it has seen, so that state and ledger can be compared. It ends with an epoch,
once there is the file STOP."""

import os
import pathlib
import sys
import time

import numpy as np

framework, folder, ledger_folder, stop = sys.argv[1:]
OPTIONS = {"batch": 2, "image_size": 8, "training": True, "remainder": "keep", "seed": 5, "threads": 1, "label_offset": 0}
SLEEP = 0.005
print(f"pid {os.getpid()} started", flush=True)


def seen_by(labels, records):
    """How often each record is there."""
    return np.bincount(np.asarray(labels), minlength=records).astype("float32")


def goes_on(hvd):
    """Whether another epoch follows; the same on all ranks."""
    return not all(hvd.allgather_object(pathlib.Path(stop).exists(), name="stop"))


def tell(step, hvd):
    print(f"step {step} by {hvd.size()}", flush=True)
    time.sleep(SLEEP)


def end(state, seen):
    assert state.images.epoch > 0 and (np.asarray(seen) == state.images.epoch).all(), (state.images.epoch, np.asarray(seen))
    print("each record once an epoch", flush=True)


def train_torch():
    import torch

    import xoe.torch as hvd
    from xoe.torch.data import ImageDataset

    hvd.init()
    torch.set_num_threads(1)
    ledger = hvd.elastic.Ledger(ledger_folder)
    images = ImageDataset(folder, ledger=ledger, **OPTIONS)
    records = images.images.records_per_epoch
    model = torch.nn.Linear(records, 1, bias=False)
    with torch.no_grad():
        model.weight.zero_()

    @hvd.elastic.run
    def train(state):
        while goes_on(hvd):
            for _, labels in state.images:
                assert labels.tolist() == state.images.batch.records.tolist()
                seen = hvd.allreduce(torch.from_numpy(seen_by(labels, records)), op=hvd.Sum, name="seen")
                with torch.no_grad():
                    model.weight.add_(seen)
                state.images.record_batch()
                state.step += 1
                if state.step % 3 == 0:
                    state.commit()
                tell(state.step, hvd)
            state.commit()

    state = hvd.elastic.TorchState(model=model, images=images, ledger=ledger, step=0)
    train(state)
    end(state, model.weight.detach())


def train_records():
    import torch

    import xoe.torch as hvd
    from xoe.data import Records
    from xoe.records import RecordBatches

    hvd.init()
    torch.set_num_threads(1)
    pattern = pathlib.Path(folder) / "train-*"
    ledger = hvd.elastic.Ledger(ledger_folder)
    images = RecordBatches(pattern, 2, seed=5, shuffle_files=True, cycle_length=2, shuffle_buffer=10, ledger=ledger)
    number_of = {record: number for number, record in enumerate(Records(pattern, rank=0, size=1))}
    records = images.records_per_epoch
    assert len(number_of) == records
    model = torch.nn.Linear(records, 1, bias=False)
    with torch.no_grad():
        model.weight.zero_()

    @hvd.elastic.run
    def train(state):
        while goes_on(hvd):
            for batch in state.images:
                numbers = np.array([number_of[record] for record in batch], dtype="int64")
                seen = hvd.allreduce(torch.from_numpy(seen_by(numbers, records)), op=hvd.Sum, name="seen")
                with torch.no_grad():
                    model.weight.add_(seen)
                state.images.record_batch()
                state.step += 1
                state.commit()
                tell(state.step, hvd)

    state = hvd.elastic.TorchState(model=model, images=images, ledger=ledger, step=0)
    train(state)
    end(state, model.weight.detach())


def train_jax():
    import jax
    import jax.numpy as jnp

    import xoe.jax as hvd
    from xoe.jax.data import ImageDataset

    hvd.init()
    ledger = hvd.elastic.Ledger(ledger_folder)
    images = ImageDataset(folder, ledger=ledger, **OPTIONS)
    records = images.images.records_per_epoch

    @jax.jit
    def update(seen, mine):
        return seen + hvd.allreduce(mine, op=hvd.Sum, name="seen")

    @hvd.elastic.run
    def train(state):
        while goes_on(hvd):
            for _, labels in state.images:
                state.seen = update(state.seen, jnp.asarray(seen_by(labels, records)))
                state.images.record_batch()
                state.step += 1
                state.commit()
                tell(state.step, hvd)

    state = hvd.elastic.JaxState(seen=jnp.zeros(records), images=images, ledger=ledger, step=0)
    train(state)
    end(state, state.seen)


def train_tensorflow():
    import tensorflow as tf

    import xoe.tensorflow as hvd
    from xoe.tensorflow.data import ImageDataset

    hvd.init()
    ledger = hvd.elastic.Ledger(ledger_folder)
    images = ImageDataset(folder, ledger=ledger, **OPTIONS)
    records = images.images.records_per_epoch
    seen = tf.Variable(tf.zeros([records]))

    @hvd.elastic.run
    def train(state):
        while goes_on(hvd):
            for _, labels in state.images.dataset().prefetch(4):
                seen.assign_add(hvd.allreduce(tf.constant(seen_by(labels, records)), op=hvd.Sum, name="seen"))
                state.images.record_batch()
                state.step += 1
                state.commit()
                tell(state.step, hvd)

    state = hvd.elastic.TensorFlowState([seen], images=images, ledger=ledger, step=0)
    train(state)
    end(state, seen)


def train_keras():
    import keras

    import xoe.keras as hvd
    from xoe.keras.data import ImageDataset

    class Numbers(ImageDataset):
        """The images' numbers in place of their pixels."""

        def __getitem__(self, index):
            _, labels = super().__getitem__(index)
            return np.eye(records, dtype="float32")[labels], np.zeros(len(labels), "float32")

    class Tell(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            state.step += 1
            tell(state.step, hvd)

    hvd.init()
    ledger = hvd.elastic.Ledger(ledger_folder)
    images = Numbers(folder, ledger=ledger, **OPTIONS)
    records = images.images.records_per_epoch
    model = keras.Sequential(
        [keras.layers.Input((records,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")]
    )
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), op=hvd.Sum)
    model.compile(optimizer=optimizer, loss=lambda _, outputs: -keras.ops.sum(outputs))

    @hvd.elastic.run
    def train(state):
        while goes_on(hvd):
            callbacks = [Tell(), hvd.elastic.CommitStateCallback(state)]
            epoch = state.images.epoch
            model.fit(state.images, initial_epoch=epoch, epochs=epoch + 1, verbose=0, callbacks=callbacks, shuffle=False)

    state = hvd.elastic.KerasState(model, images=images, ledger=ledger, step=0)
    train(state)
    end(state, model.get_weights()[0])


PROGRAMS = {
    "torch": train_torch,
    "records": train_records,
    "jax": train_jax,
    "tensorflow": train_tensorflow,
    "keras": train_keras,
}
PROGRAMS[framework]()
