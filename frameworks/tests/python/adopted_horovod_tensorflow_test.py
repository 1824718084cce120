"""Horovod's own examples for TensorFlow 2 and Keras, and tf_cnn_benchmarks, unchanged, with tf_keras, for which they were written."""

import re

import adopted
import ranks

ranks.use("frameworks", "tf_keras")
KERAS_2 = {"TF_USE_LEGACY_KERAS": "1"}
STEPS = 12


def learns(name, size, folder, pattern):
    """Trains for a few steps on digits; gives what the program said of its loss."""
    program = adopted.checkout("horovod", f"examples/tensorflow2/{name}.py")
    data = folder / "data"
    if not data.exists():
        adopted.write_digits(data)
    few = {"ADOPTED_DIGITS": str(data / "MNIST" / "raw"), "ADOPTED_STEPS": str(STEPS)}
    printed, _ = adopted.train(size, [program], folder / f"{size}", **few, **KERAS_2)
    losses = [float(loss) for loss in re.findall(pattern, printed)]
    assert losses, printed
    return losses


def test_mnist(folder):
    """Random batches differ on each rank, and its weights would without broadcasts and sums."""
    for size in (1, 2):
        losses = learns("tensorflow2_mnist", size, folder, r"Step #\d+\tLoss: ([\d.]+)")
        assert losses[-1] < losses[0] / 2, losses
        print(f"  {size} ranks: loss {losses[0]} to {losses[-1]}", flush=True)


def test_keras_mnist(folder):
    """The model has no weights until its first batch has come."""
    for size in (1, 2):
        losses = learns("tensorflow2_keras_mnist", size, folder, r"loss: ([\d.]+)")
        assert losses[-1] < losses[0], losses
        print(f"  {size} ranks: loss {losses[0]} to {losses[-1]}", flush=True)


def test_benchmarks_of_horovod(folder):
    options = ["--no-cuda", "--batch-size", 2, "--num-batches-per-iter", 1, "--num-iters", 2, "--model", "MobileNetV2"]
    for name, more in (
        ("tensorflow2_synthetic_benchmark", ["--num-warmup-batches", 1]),
        ("tensorflow2_keras_synthetic_benchmark", []),
    ):
        program = adopted.checkout("horovod", f"examples/tensorflow2/{name}.py")
        printed, _ = adopted.train(2, [program, *options, *more], folder / name, **KERAS_2)
        assert re.search(r"Total img/sec on 2 CPU\(s\): [\d.]+", printed), printed


def cnn(size, folder, update):
    """The losses of each rank's steps."""
    program = adopted.checkout("benchmarks", "scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py")
    model = ["--model=resnet20", "--data_name=cifar10", "--batch_size=4", "--init_learning_rate=0.01", "--weight_decay=0"]
    run = ["--num_batches=6", "--num_warmup_batches=1", "--display_every=1", "--num_intra_threads=1", "--num_inter_threads=1"]
    words = [program, "--device=cpu", "--data_format=NHWC", f"--variable_update={update}", *model, *run]
    printed = adopted.run(size, words, folder / f"{update}-{size}", **KERAS_2)
    return printed, re.findall(r"^\[(\d)\] (\d)\timages/sec: .*\t([\d.]+)$", printed, re.MULTILINE)


def test_tf_cnn_benchmarks(folder):
    """It adds gradients up with `hvd.allreduce(gradient, average=False)`. Rank 0 has the weights and the batch of one process."""
    alone, one = ([float(loss) for *_, loss in cnn(1, folder, update)[1]] for update in ("parameter_server", "horovod"))
    assert len(alone) == 6
    adopted.close(one, alone, 0.02)
    for size in (2, 4):
        printed, found = cnn(size, folder, "horovod")
        by_rank = [[float(loss) for rank, _, loss in found if rank == str(one)] for one in range(size)]
        assert all(len(losses) == 6 for losses in by_rank), printed
        assert len({tuple(losses) for losses in by_rank}) == size, f"each rank has a batch of its own: {by_rank}"
        apart = max(abs(loss - other) for loss, other in zip(by_rank[0], alone, strict=True))
        assert apart > 0.05, f"the other ranks' gradients change nothing: {by_rank[0]}, alone {alone}"
        print(f"  {size} ranks: losses of rank 0 {by_rank[0]}; alone {alone}", flush=True)


ranks.drive(globals())
