"""The parts of scripts/gpu_check.sh: what each shows, its limit, its programs, and the figures that the page has of it."""

import dataclasses
import importlib.util
import os
import pathlib
import re
import shutil
import sys
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).resolve().parent
FOLDER = ROOT / "build" / "gpu"
BUILD = FOLDER / "build"
WHEEL = FOLDER / "wheel"
TARGETS = ("xoe", "xoe-train", "xoe-data", "xoe-doctor", "xoe_python", "xoe_net_nccl", "nccl_tests", "drivers_test")


@dataclasses.dataclass(frozen=True)
class Machine:
    """Where the programs are, and how much they shall do."""

    rehearsal: bool = False

    @property
    def device(self):
        return "cpu" if self.rehearsal else "cuda"

    @property
    def bin(self):
        return BUILD / "bin" if (BUILD / "bin" / "xoe").exists() else WHEEL / "xoe" / "bin"

    @property
    def package(self):
        return BUILD / "python" if any((BUILD / "python" / "xoe").glob("_core*.so")) else WHEEL

    def on_ranks(self, ranks, *command):
        """The command on so many ranks."""
        return [self.bin / "xoe", "run", "-np", ranks, "--no-tag-output", *command]

    def choose(self, real, rehearsed):
        return rehearsed if self.rehearsal else real

    def variables(self):
        """For every program. VIRTUAL_ENV is where Xoe looks for NCCL; CMake and Ninja may have come with Python."""
        path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
        return {"PATH": path, "PYTHONPATH": str(self.package), "XOE_BUILD_DIR": str(BUILD), "XOE_PEERS_PYTHON": sys.executable,
                "VIRTUAL_ENV": sys.prefix, "PYTHONUNBUFFERED": "1"}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Step:
    """One program. Its figures are the JSON objects among the lines that it prints, later ones over earlier ones."""

    name: str
    command: list
    variables: dict = dataclasses.field(default_factory=dict)
    figures_of: Callable[[str], dict] = lambda output: {}  # more figures, of what it printed
    needs: str = ""  # a program, without which the step is skipped


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    title: str
    about: str
    limit: int  # seconds, all its steps together
    steps: Callable[[Machine], list]
    columns: dict  # figure of a step -> heading
    needs_gpu: bool = True


def build(machine):
    torch = importlib.util.find_spec("torch")
    torch_option = f"-DXOE_TORCH_ROOT={torch.submodule_search_locations[0]}" if torch else "-DXOE_WITH_TORCH=OFF"
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--upgrade", "--target", WHEEL]
    # Another compiler than ours may warn.
    configure = ["cmake", "--preset", "release", "-B", BUILD, "-DXOE_UNITY=ON", "-DXOE_BUILD_BENCH=OFF", "-DXOE_WITH_POOL=OFF", "-DXOE_WERROR=OFF",
                 torch_option, f"-DPython_EXECUTABLE={sys.executable}"]  # fmt: skip
    return [
        *(Step("install the wheel", [*pip, wheel]) for wheel in (FOLDER / "wheels").glob("*.whl")),
        Step("configure", configure),
        Step("compile", ["cmake", "--build", BUILD, "--target", *TARGETS]),
    ]


def collectives(machine, name, ranks, through, **variables):
    sizes = machine.choose(("4K", "256K", "4M", "64M", "256M"), ("4K", "1M"))
    script = [sys.executable, HERE / "collectives.py", through, "--device", machine.device, "--sizes", ",".join(sizes)]
    return Step(name, machine.on_ranks(ranks, *script), variables)


def one_rank(machine):
    return [
        Step("machine", [sys.executable, HERE / "facts.py", machine.bin / "xoe"]),
        collectives(machine, "Xoe", 1, "xoe"),
        collectives(machine, "NCCL, by torch.distributed", 1, machine.choose("nccl", "gloo")),
    ]


def two_ranks(machine):
    return [
        collectives(machine, "Xoe", 2, "xoe"),
        collectives(machine, "Xoe, XOE_GPU=nccl", 2, "xoe", XOE_GPU="nccl", NCCL_MULTI_RANK_GPU_ENABLE="1"),
        collectives(machine, "Xoe, XOE_GPU=staged", 2, "xoe", XOE_GPU="staged"),
        collectives(machine, "Xoe, XOE_GPU=host", 2, "xoe", XOE_GPU="host"),
        collectives(machine, "Gloo, by torch.distributed", 2, "gloo"),
    ]


def results_of_tests(output):
    """Of what ctest printed: each test and how it ended."""
    ends = re.findall(
        r"^ *\d+/\d+ +Test +#\d+: +(\S+) +\.*(?:\*\*\*)? *(Passed|Skipped|Failed|Timeout|Not Run|Exception)",
        output,
        re.MULTILINE,
    )
    return {"tests": [{"test": name, "result": result.lower()} for name, result in ends]}


def tests(machine):
    command = ["ctest", "--test-dir", BUILD, "-L", "gpu", "-j", "4", "--output-on-failure", "--timeout", "60"]
    return [Step("ctest", command, figures_of=results_of_tests)]


def ddp(machine):
    sizes = machine.choose(
        ("--batch", "64", "--image-size", "224", "--steps", "40", "--warmup", "10"),
        ("--batch", "2", "--steps", "2", "--warmup", "1"),
    )
    common = ("--model", "resnet50", "--device", machine.device, "--precision", "bf16", *sizes)
    modes = {
        "PyTorch alone": "alone",
        "DistributedOptimizer of xoe.torch": "optimizer",
        'DDP with "xoe"': "xoe",
        'DDP with "xoe" and its hook': "hook",
        "DDP with NCCL": machine.choose("nccl", "gloo"),
    }
    worker = (sys.executable, ROOT / "bench" / "python" / "worker.py")
    return [Step(name, machine.on_ranks(1, *worker, mode, *common)) for name, mode in modes.items()]


def train(machine):
    batch, image, steps, warmup = machine.choose((256, 224, 60, 20), (2, 64, 3, 1))
    images = machine.choose(6000, 16)
    shared = ["--batch", batch, "--image-size", image, "--precision", "bf16", "--device", machine.device]
    ours = [machine.bin / "xoe", "train", "--model", "resnet50", *shared, "--steps", steps + warmup, "--warmup-steps", warmup,
            "--report-every", steps + warmup, "--lr", "1e-4", "--lr-batch", "0", "--json"]  # fmt: skip
    theirs = [sys.executable, ROOT / "bench" / "training" / "torch_worker.py", *shared, "--steps", steps, "--warmup", warmup]
    data = FOLDER / "images"
    make = [machine.bin / "xoe", "data", "make", "--images", images, "--validation", 0, "--width", 500, "--height", 375,
            "--shards", 16, data]  # fmt: skip
    return [
        Step("xoe train", [*ours, "--synthetic"]),
        Step("PyTorch, eager", theirs),
        Step("make images", ["sh", "-c", 'rm -rf "$0" && exec "$@"', data, *make]),
        Step("xoe train, images from files", [*ours, "--data", data]),
        Step("PyTorch, torch.compile", [*theirs, "--compile"]),
    ]


def pinned(machine):
    return [Step("copies", [sys.executable, HERE / "upload.py", "--device", machine.device, "--mib", machine.choose(147, 4)])]


def sanitizer(machine):
    folders = os.pathsep.join([os.environ["PATH"], "/usr/local/cuda/bin"])
    found = shutil.which("compute-sanitizer", path=folders) or "compute-sanitizer"
    test = [found, "--error-exitcode", 9, sys.executable, ROOT / "tests" / "python" / "cuda_test.py"]
    return [Step("memcheck", machine.on_ranks(1, *test), {"XOE_TEST_RANK": "1"}, needs=found)]


COLLECTIVES = {"transport": "transport", "wrong": "wrong elements", "refused": "refused"}
PARTS = (
    Part(
        "build",
        "Build",
        "The sources are built with this machine's compiler and PyTorch; a wheel in the bundle is installed.",
        limit=280,
        steps=build,
        columns={},
        needs_gpu=False,
    ),
    Part(
        "nccl",
        "NCCL, one rank",
        "Which NCCL is found, and allreduce on one rank: right sums, and what a call costs beside NCCL's own.",
        limit=70,
        steps=one_rank,
        columns={"gpu": "GPU", "driver": "driver", "torch": "PyTorch", "nccl": "NCCL", "doctor": "xoe doctor", **COLLECTIVES},
    ),
    Part(
        "two_ranks",
        "Two ranks on one GPU",
        "The transport (NCCL, or staged through host memory), right sums, and GB/s.",
        limit=110,
        steps=two_ranks,
        columns=COLLECTIVES,
    ),
    Part(
        "tests",
        "Tests",
        "The tests labelled `gpu`: the engine's GPU lanes, streams, and a rank that is killed.",
        limit=130,
        steps=tests,
        columns={},
        needs_gpu=False,
    ),
    Part(
        "ddp",
        "Training with PyTorch, one rank",
        "ResNet-50 in bfloat16. What a step is longer than that of PyTorch alone is what data parallelism costs; all rows must come to"
        " the same loss.",
        limit=130,
        steps=ddp,
        columns={"step_ms": "step, ms", "cpu_ms": "processor, ms", "loss": "loss"},
    ),
    Part(
        "train",
        "xoe train",
        "ResNet-50 in bfloat16, channels last, the same batch for all: one random batch that stays on the GPU, and JPEG files"
        " that Xoe's input pipeline reads.",
        limit=220,
        steps=train,
        columns={"images_per_s": "images/s", "share.data": "share of time waiting for input"},
    ),
    Part(
        "pinned",
        "Copies to the GPU",
        "A batch of images from pageable and from pinned memory, and how much of the copy a training hides behind computing.",
        limit=40,
        steps=pinned,
        columns={
            "pageable_gb_s": "pageable, GB/s",
            "pinned_gb_s": "pinned, GB/s",
            "pin_gb_s": "copy into pinned memory, GB/s",
            "hidden": "share hidden",
        },
    ),
    Part(
        "sanitizer",
        "compute-sanitizer",
        "The test of GPU tensors on one rank under `compute-sanitizer` (memcheck).",
        limit=100,
        steps=sanitizer,
        columns={},
    ),
)
