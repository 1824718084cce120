"""Horovod's own examples for PyTorch, unchanged: trained by several ranks they get the weights of one process with the whole batch."""

import re

import adopted
import ranks

ROWS = 128  # of all ranks' batches together
RATE = 0.04  # of all ranks together


def example(name):
    return adopted.checkout("horovod", f"examples/{name}")


def mnist(size, folder, data, *options):
    """The example multiplies its learning rate by the number of ranks."""
    words = [example("pytorch/pytorch_mnist.py"), "--data-dir", data, "--epochs", 3, "--log-interval", 1]
    given = ["--batch-size", ROWS // size, "--lr", RATE if "--use-adasum" in options else RATE / size]
    return adopted.train(size, [*words, *given, *options], folder / f"{size}{''.join(options)}", ADOPTED_WITHOUT_DROPOUT="1")


def accuracy(printed):
    return float(re.findall(r"Accuracy: ([\d.]+)%", printed)[-1])


def test_mnist_is_one_process_with_the_whole_batch(folder):
    example("pytorch/pytorch_mnist.py")
    adopted.write_digits(folder / "data")
    alone, expected = mnist(1, folder, folder / "data")
    assert accuracy(alone) > 30, alone
    for size in (2, 4):
        printed, sums = mnist(size, folder, folder / "data")
        adopted.close(sums, expected, 1e-4)
        assert abs(accuracy(printed) - accuracy(alone)) < 1, (printed, alone)
        print(f"  {size} ranks: accuracy {accuracy(printed)} %, alone {accuracy(alone)} %", flush=True)


def test_mnist_with_options(folder):
    example("pytorch/pytorch_mnist.py")
    adopted.write_digits(folder / "data")
    _, expected = mnist(1, folder, folder / "data")
    _, sums = mnist(2, folder, folder / "data", "--gradient-predivide-factor", "2.0")
    adopted.close(sums, expected, 1e-4)
    _, sums = mnist(2, folder, folder / "data", "--fp16-allreduce")
    adopted.close(sums, expected, 3e-2)
    printed, _ = mnist(2, folder, folder / "data", "--use-adasum")
    assert accuracy(printed) > 15, printed


def test_mnist_started_by_itself(folder):
    """--num-proc: the program calls horovod.run(main)."""
    program = example("pytorch/pytorch_mnist.py")
    adopted.write_digits(folder / "data")
    words = [ranks.interpreter(), program, "--data-dir", folder / "data", "--epochs", 1, "--batch-size", 64, "--num-proc", 2]
    printed = adopted.call([*words, "--communication", "gloo"], folder)
    assert "Running training through horovod.run" in printed and printed.count("Train Epoch: 1 [0/256") == 2, printed


def test_elastic_mnist(folder):
    program = example("elastic/pytorch/pytorch_mnist_elastic.py")
    adopted.write_digits(folder / "data")
    printed, _ = adopted.train(2, [program, "--data-dir", folder / "data", "--epochs", 1, "--batch-size", 64], folder)
    assert "[0/256" in printed and accuracy(printed) > 5, printed


def test_synthetic_benchmark(folder):
    short = ["--batch-size", 2, "--num-warmup-batches", 1, "--num-batches-per-iter", 1, "--num-iters", 2]
    words = [example("pytorch/pytorch_synthetic_benchmark.py"), "--model", "squeezenet1_1", *short]
    printed, _ = adopted.train(2, words, folder)
    assert float(re.search(r"Total img/sec on 2 CPU\(s\): ([\d.]+)", printed)[1]) > 0, printed


def test_adasum(folder):
    program = example("adasum/adasum_small_model.py")
    for op in ("Average", "Adasum"):
        printed, _ = adopted.train(2, [program, "--op", op, "--learning_rate", 0.05], folder / op)
        steps = re.search(rf"1.0 {op} 0.05 2 (\d+)", printed)
        assert steps and int(steps[1]) <= 100, printed


ranks.drive(globals())
