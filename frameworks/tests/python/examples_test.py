"""The programs in examples/pytorch, and that of the package, with small settings: they learn, resume, compare."""

import pathlib
import re
import subprocess

import ranks

EXAMPLES = ranks.ROOT / "examples" / "pytorch"
MNIST = ranks.ROOT / "frameworks/python/xoe/examples/mnist.py"


def output(size, name, *arguments):
    """What an example prints; it must end well."""
    done = ranks.run(size, EXAMPLES / name, *map(str, arguments))
    print(f"  {pathlib.Path(name).name} on {size} ranks: exit code {done.returncode} after {done.seconds:.1f} s", flush=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def numbers(pattern, text):
    found = [float(number) for number in re.findall(pattern, text)]
    assert found, f"{pattern!r} is not in:\n{text}"
    return found


def test_mnist(folder):
    said = output(2, MNIST, "--target", 0.95)
    assert numbers(r"accuracy ([\d.]+)%", said)[-1] >= 95.0, said


def test_mnist_below_its_target(folder):
    """On files of MNIST's form, too small to learn from."""
    for kind, count in (("train", 64), ("t10k", 10)):
        pixels = bytes(k % 251 for k in range(28 * 28 * count))
        (folder / f"{kind}-images-idx3-ubyte").write_bytes(
            bytes([0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 28, 0, 0, 0, 28]) + pixels
        )
        (folder / f"{kind}-labels-idx1-ubyte").write_bytes(
            bytes([0, 0, 8, 1, 0, 0, 0, count]) + bytes(k % 10 for k in range(count))
        )
    done = ranks.run(2, MNIST, "--data", str(folder), "--epochs", "1", "--target", "1.0")
    assert done.returncode == 1 and "is below --target 1.0" in done.stdout, done.stdout


def test_gpt(folder):
    losses = numbers(r"loss ([\d.]+)", output(2, "gpt.py", "--steps", 60))
    assert losses[0] > 3 and losses[-1] < losses[0] / 2, losses


def test_hyperparameters(folder):
    said = output(4, "hyperparameters.py", "--rates", 0.0001, 0.3, "--steps", 100)
    assert "best learning rate: 0.3" in said, said
    bad, good = (numbers(rf"learning rate {rate}: loss ([\d.]+)", said)[0] for rate in ("0.0001", "0.3"))
    assert good < bad, said


def test_imagenet(folder):
    images = folder / "images"
    xoe = str(ranks.BUILD / "bin" / "xoe")
    make = ("data", "make", "--images", "64", "--classes", "4", "--shards", "2", str(images))
    subprocess.run([xoe, *make], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    options = (images, "--image-size", 64, "--batch", 4, "--checkpoint", folder / "resnet50.pt")
    said = output(2, "imagenet_resnet50.py", *options, "--steps", 2)
    assert "begins at step 0" in said, said
    assert numbers(r"([\d.]+) images/s", said)[0] > 0
    said = output(2, "imagenet_resnet50.py", *options, "--steps", 6, "--validate", "--bf16")  # to the end of the epoch
    assert "begins at step 2, epoch 0.250" in said and "epoch 1.000: loss" in said, said
    assert 0 <= numbers(r"epoch 1: accuracy ([\d.]+)%", said)[0] <= 100


ranks.drive(globals())
