"""The programs of examples/jax, examples/tensorflow and examples/keras learn to read digits on two ranks."""

import re
import subprocess

import ranks

ranks.use("frameworks", "jax")
EXAMPLES = ranks.ROOT / "examples"


def learns(framework, **variables):
    done = ranks.run(2, EXAMPLES / framework / "mnist.py", TF_CPP_MIN_LOG_LEVEL="3", **variables)
    assert done.returncode == 0, done.stdout
    found = [float(number) for number in re.findall(r"accuracy ([\d.]+)%", done.stdout)]
    print(f"  {framework} {variables}: {found} % after {done.seconds:.0f} s", flush=True)
    assert found and found[-1] >= 95, done.stdout


def test_jax(folder):
    learns("jax")


def test_tensorflow(folder):
    learns("tensorflow")


def test_keras(folder):
    for backend in ("tensorflow", "jax", "torch"):
        learns("keras", KERAS_BACKEND=backend)


def test_resnet50_through_both_pipelines(folder):
    images = folder / "images"
    make = [ranks.BUILD / "bin" / "xoe-data", "make", "--images", "64", "--classes", "4", "--shards", "2", images]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    for backend, pipeline in (("tensorflow", "tf.data"), ("tensorflow", "xoe"), ("jax", "xoe")):
        options = ("--pipeline", pipeline, "--image-size", "48", "--batch", "8", "--epochs", "2")
        program = EXAMPLES / "keras" / "resnet50.py"
        done = ranks.run(2, program, images, *options, TF_CPP_MIN_LOG_LEVEL="3", KERAS_BACKEND=backend)
        assert done.returncode == 0, done.stdout
        said = re.search(r"loss ([\d.]+), held-out accuracy ([\d.]+)%, ([\d.]+) images/s", done.stdout)
        print(f"  {backend} through {pipeline}: {said[0]} after {done.seconds:.0f} s", flush=True)
        assert "ran out of data" not in done.stdout and 0 < float(said[1]) < 100, done.stdout


ranks.drive(globals())
