"""The programs of examples/jax, examples/tensorflow and examples/keras learn to read digits on two ranks."""

import re

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


ranks.drive(globals())
