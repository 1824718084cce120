"""DeePMD-kit and DeepXDE, which train with Horovod, and RETURNN, unchanged, from their packages: several ranks are one process."""

import json
import pathlib
import re
import shutil
import textwrap

import adopted
import ranks

ranks.use("adopted", "deepmd")

# After docs/user/parallel.rst of DeepXDE: "strong" scaling divides rank 0's points among the ranks.
POINTS = """
import deepxde as dde
import numpy as np
from deepxde.backend import tf

dde.config.set_random_seed(1)
if dde.config.hvd is not None:
    dde.config.set_parallel_scaling("strong")
interval = dde.geometry.Interval(-1, 1)
boundary = dde.icbc.DirichletBC(interval, lambda x: 0, lambda x, on: on)
data = dde.data.PDE(
    interval,
    lambda x, y: -dde.grad.hessian(y, x) - np.pi**2 * tf.sin(np.pi * x),
    boundary, 14, 2, train_distribution="pseudo", solution=lambda x: np.sin(np.pi * x), num_test=32,
)
model = dde.Model(data, dde.nn.FNN([1, 16, 16, 1], "tanh", "Glorot uniform"))
model.compile("adam", lr=0.001, metrics=["l2 relative error"])
history, _ = model.train(iterations=40, display_every=10)
print("RANK", dde.config.rank, dde.config.world_size, len(data.train_x_all), [float(one[0]) for one in history.metrics_test])
"""


def deepmd_input(folder):
    """A training on the one frame of its tests, at the same rate for any number of ranks."""
    given = adopted.checkout("deepmd", "source/tests/tf/model_compression")
    wanted = json.loads((given / "input.json").read_text())
    wanted["learning_rate"]["scale_by_worker"] = "none"
    for part in ("training_data", "validation_data"):
        wanted["training"][part] = {"systems": [str(given / "data")], "batch_size": 1}
    wanted["training"] |= {"numb_steps": 8, "save_freq": 8}
    file = folder / "input.json"
    file.write_text(json.dumps(wanted))
    return file


def test_deepmd_is_one_process(folder):
    program = pathlib.Path(ranks.interpreter()).parent / "dp"
    learned = {}
    for size in (1, 2, 4):
        here = folder / str(size)
        adopted.run_together(size, [program, "train", deepmd_input(folder)], here, TF_USE_LEGACY_KERAS="1")
        learned[size] = (here / "lcurve.out").read_text()
    rows = [line for line in learned[1].splitlines() if not line.startswith("#")]
    assert len(rows) == 9 and float(rows[-1].split()[1]) < float(rows[0].split()[1]) / 3, learned[1]
    for size in (2, 4):
        assert learned[size] == learned[1], f"{size} ranks:\n{learned[size]}one process:\n{learned[1]}"


def test_deepmds_own_test_of_parallel_training(folder):
    """`horovodrun -np 2 dp train -m workers`."""
    tests = folder / "tests"
    shutil.copytree(adopted.checkout("deepmd", "source/tests"), tests)
    words = [ranks.interpreter(), "-m", "pytest", "-q", "-p", "no:cacheprovider", tests / "tf" / "test_parallel_training.py"]
    printed = adopted.call(words, tests, TF_USE_LEGACY_KERAS="1")
    assert "1 passed" in printed, printed


def points(size, folder):
    """Under Open MPI's mpirun, since DeepXDE asks mpi4py and Horovod. The metrics of each rank, by rank."""
    program = folder / "points.py"
    program.write_text(textwrap.dedent(POINTS))
    started = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", size] if size > 1 else []
    variables = {"DDE_BACKEND": "tensorflow.compat.v1", "TF_USE_LEGACY_KERAS": "1"}
    printed = adopted.call([*started, ranks.interpreter(), program], folder, **variables)
    found = re.findall(r"RANK (\d) (\d) (\d+) \[(.*?)\]", printed)
    assert sorted(int(rank) for rank, *_ in found) == list(range(size)), printed
    assert all((int(of), int(count)) == (size, 16 // size) for _, of, count, _ in found), found
    return [[float(number) for number in numbers.split(", ")] for *_, numbers in found]


def test_deepxde_is_one_process(folder):
    adopted.need("mpi4py")
    (alone,) = points(1, folder)
    assert alone[-1] < 0.8 * alone[0], alone
    for size in (2, 4):
        for found in points(size, folder):
            adopted.close(found, alone, 1e-4)


def test_deepxdes_example(folder):
    program = adopted.checkout("deepxde", "examples/pinn_forward/diffusion_1d_resample.py")
    variables = {"DDE_BACKEND": "tensorflow.compat.v1", "TF_USE_LEGACY_KERAS": "1"}
    words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", 2, ranks.interpreter(), program]
    printed = adopted.call(words, folder, **variables)
    error = float(re.search(r"test metric: \[([\d.e+-]+)\]", printed)[1])
    assert "Parallel training with 2 processes" in printed and error < 0.2, printed


def test_returnns_demo(folder):
    program, config = (adopted.checkout("returnn", name) for name in ("rnn.py", "demos/demo-tf-vanilla-lstm.12ax.config"))
    scores = {}
    for size in (1, 2):
        options = ["++use_horovod", 1, "++horovod_reduce_type", "grad", "++num_epochs", 1, "++device", "cpu"]
        model = ["++model", folder / f"model-{size}"]
        printed = adopted.run(size, [program, config, *options, *model], folder / str(size), TF_USE_LEGACY_KERAS="1")
        found = re.findall(r"^\[0\] dev: score ([\d.]+)", printed, re.MULTILINE)
        assert found and (size == 1 or "Horovod" in printed), printed
        scores[size] = float(found[-1])
    print(f"  dev scores by number of ranks: {scores}", flush=True)
    assert all(0 < score < 0.6 for score in scores.values()), scores


ranks.drive(globals())
