"""The parts of scripts/gpu_check.sh, those first that its page needs most: what each shows, its limits, its programs, and the figures
that the page has of it."""

import dataclasses
import importlib.util
import os
import pathlib
import re
import shutil
import sys
from collections.abc import Callable

from steps import Step

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
FOLDER = ROOT / "build" / "gpu"
BUILD = FOLDER / "build"
WHEELS = FOLDER / "wheels"
PACKAGES = FOLDER / "wheel"  # the wheels, installed
LAYOUT = FOLDER / "layout"  # the same as a build folder looks, for tests
IMAGES = FOLDER / "images"
QUICK = 240  # seconds: a smaller budget measures less in each part
TARGETS = ("xoe-train", "nccl_tests", "drivers_test")  # what the wheel lacks
WITHOUT_WHEEL = ("xoe", "xoe-data", "xoe-doctor", "xoe_python", "xoe_net_nccl", *TARGETS)


@dataclasses.dataclass(frozen=True)
class Machine:
    """Where the programs are, and how much they shall do."""

    rehearsal: bool = False
    quick: bool = False

    @property
    def device(self):
        return "cpu" if self.rehearsal else "cuda"

    @property
    def from_wheel(self):
        return (PACKAGES / "xoe" / "bin" / "xoe").exists()

    @property
    def bin(self):
        return PACKAGES / "xoe" / "bin" if self.from_wheel else BUILD / "bin"

    @property
    def package(self):
        return PACKAGES if self.from_wheel else BUILD / "python"

    def on_ranks(self, ranks, *command):
        """The command on so many ranks."""
        return [self.bin / "xoe", "run", "-np", ranks, "--no-tag-output", *command]

    def choose(self, real, rehearsed):
        return rehearsed if self.rehearsal else real

    def variables(self):
        """For every program. VIRTUAL_ENV is where Xoe looks for NCCL; CMake and Ninja may have come with Python."""
        path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
        return {"PATH": path, "PYTHONPATH": str(self.package), "XOE_BUILD_DIR": str(LAYOUT if self.from_wheel else BUILD),
                "XOE_PEERS_PYTHON": sys.executable, "VIRTUAL_ENV": sys.prefix, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1",
                "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    title: str
    about: str
    limit: int  # seconds, all its steps together
    least: int  # seconds: with less than this it is skipped
    steps: Callable[[Machine], list]
    columns: dict = dataclasses.field(default_factory=dict)  # figure of a step -> heading
    needs_build: bool = False
    compare: tuple = ()  # (figure, step, heading): a column of that step's figure over each step's


def has(*modules):
    return all(importlib.util.find_spec(module) is not None for module in modules)


def install():
    """The step that installs the bundle's wheels; it leaves Keras out where the machine has it."""
    found = sorted(WHEELS.glob("*.whl"))
    wanted = [wheel for wheel in found if wheel.name.startswith("xoe-") or not has("keras")]
    if not any(wheel.name.startswith("xoe-") for wheel in found):
        return None
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        "--no-compile",
        "--upgrade",
        "--target",
        PACKAGES,
    ]
    return Step("install the wheel", [*pip, *wanted], limit=60)


def build(machine):
    """What goes on beside the check; nothing where the bundle has no sources."""
    if not (ROOT / "core").exists():
        return []
    torch = importlib.util.find_spec("torch")
    torch_option = f"-DXOE_TORCH_ROOT={torch.submodule_search_locations[0]}" if torch else "-DXOE_WITH_TORCH=OFF"
    # Another compiler than ours may warn.
    configure = ["cmake", "--preset", "release", "-B", BUILD, "-DXOE_UNITY=ON", "-DXOE_BUILD_BENCH=OFF", "-DXOE_WITH_POOL=OFF", "-DXOE_WERROR=OFF",
                 torch_option, f"-DPython_EXECUTABLE={sys.executable}"]  # fmt: skip
    targets = TARGETS if machine.from_wheel else WITHOUT_WHEEL
    return [
        Step("configure", configure),
        Step("compile", ["cmake", "--build", BUILD, "--parallel", len(os.sched_getaffinity(0)), "--target", *targets]),
    ]


def build_variables(machine):
    """For the build alone: a bundle has the files of Debian's packages beside the sources. The compiler and CMake then treat them as the
    system's own, and the programs find their libraries there, too; a variable would have the machine's own programs find them."""
    packages = FOLDER / "debian" / "usr"
    if not packages.is_dir():
        return machine.variables()
    libraries, headers = packages / "lib" / "x86_64-linux-gnu", packages / "include"
    return machine.variables() | {
        "CMAKE_PREFIX_PATH": str(packages),
        "LIBRARY_PATH": str(libraries),
        "LDFLAGS": f"{os.environ.get('LDFLAGS', '')} -Wl,-rpath,{libraries}",
        "CPLUS_INCLUDE_PATH": f"{headers}:{headers / 'x86_64-linux-gnu'}",
        "C_INCLUDE_PATH": str(headers),
    }


def facts(machine):
    doctor = [machine.bin / "xoe", "doctor", "--only", "gpu,xoe,python", "--json"]
    return [
        Step("machine", [sys.executable, HERE / "facts.py"]),
        Step("xoe doctor", [sys.executable, HERE / "findings.py", *doctor]),
    ]


def collectives(machine, name, ranks, through, **variables):
    sizes = machine.choose(("4K", "4M", "64M") if machine.quick else ("4K", "256K", "4M", "64M", "256M"), ("4K", "1M"))
    script = [sys.executable, HERE / "collectives.py", through, "--device", machine.device, "--sizes", ",".join(sizes),
              "--seconds", "0.2" if machine.quick else "0.4"]  # fmt: skip
    if variables.get("XOE_GPU") == "nccl":
        script.append("--may-refuse")  # what NCCL says of two ranks on one GPU is what is asked
    return Step(name, machine.on_ranks(ranks, *script), variables, limit=machine.choose(40, 60), least=8, timed=True)


def two_ranks(machine):
    quick = [
        collectives(machine, "Xoe", 2, "xoe"),
        collectives(machine, "Xoe, XOE_GPU=nccl", 2, "xoe", XOE_GPU="nccl", NCCL_MULTI_RANK_GPU_ENABLE="1"),
        collectives(machine, "Gloo, by torch.distributed", 2, "gloo"),
    ]
    if machine.quick:
        return quick
    return [
        *quick,
        collectives(machine, "Xoe, XOE_GPU=host", 2, "xoe", XOE_GPU="host"),
        collectives(machine, "Xoe, one rank", 1, "xoe"),
        collectives(machine, "NCCL, one rank", 1, machine.choose("nccl", "gloo")),
    ]


IN_STREAM = 'DDP with "xoe", XOE_GPU_WAIT=stream'


def training(machine):
    sizes = machine.choose(
        ("--batch", "64", "--image-size", "224", "--steps", "40" if machine.quick else "60", "--warmup", "10"),
        ("--batch", "2", "--steps", "2", "--warmup", "1"),
    )
    common = ("--model", "resnet50", "--device", machine.device, "--precision", "bf16", *sizes)
    modes = {
        "DDP with NCCL": machine.choose("nccl", "gloo"),
        'DDP with "xoe"': "xoe",
        IN_STREAM: "xoe",
        "DistributedOptimizer of xoe.torch": "optimizer",
        "PyTorch alone": "alone",
        'DDP with "xoe" and its hook': "hook",
    }
    worker = (sys.executable, ROOT / "frameworks/bench/python/worker.py")

    def step(name, again=False):
        command = machine.on_ranks(1, *worker, modes[name], *common)
        variables = {"XOE_GPU_WAIT": "stream"} if name == IN_STREAM else {}
        return Step(name, command, variables, limit=machine.choose(40, 60), least=8, timed=True, again=again)

    names = list(modes)
    if machine.quick:
        return [step(name) for name in names[:4]]
    return [*map(step, names), *(step(name, again=True) for name in names[:4])]


def killed(machine):
    test = [sys.executable, ROOT / "frameworks/tests/python/cuda_kill_test.py", machine.device]
    return [Step(f"XOE_GPU={way}", [*test, way], limit=40, least=10) for way in ("auto", "host")]


def accuracy_of(output):
    found = re.findall(r"accuracy (\d+(?:\.\d+)?)%", output)
    return {"accuracy": float(found[-1]) / 100} if found else {}


def jax_and_keras(machine):
    on_host = {"JAX_PLATFORMS": "cpu"}
    if not has("jax"):
        return []
    sums = [sys.executable, HERE / "jax_sums.py"]
    epochs = ("--epochs", 2)
    jax_example = [sys.executable, ROOT / "examples" / "jax" / "mnist.py", *epochs]
    keras_example = [sys.executable, ROOT / "examples" / "keras" / "mnist.py", *epochs]

    def run(name, ranks, command, options=(), **variables):
        launched = machine.on_ranks(ranks, *options, *command)
        return Step(name, launched, variables, figures_of=accuracy_of, limit=machine.choose(40, 90), least=10)

    found = [
        run("psum under `xoe run --jax`", 1, [*sums, "psum"], ["--jax"]),
        run("xoe.jax in jit, one rank", 1, [*sums, "xoe"]),
        run("xoe.jax in jit, two ranks on one GPU", 2, [*sums, "xoe"]),
        run("psum under `xoe run --jax`, two ranks on processors", 2, [*sums, "psum"], ["--jax"], **on_host),
    ]
    if has("optax"):
        found.append(run("examples/jax/mnist.py, two ranks", 2, jax_example))
    if has("keras") or (PACKAGES / "keras").exists():
        found.append(run("examples/keras/mnist.py on JAX, one rank", 1, keras_example, KERAS_BACKEND="jax"))
        found.append(run("examples/keras/mnist.py on JAX, two ranks", 2, keras_example, KERAS_BACKEND="jax"))
    return found


def train(machine):
    batch, image, count, warmup = machine.choose((256, 224, 60, 20), (2, 64, 3, 1))
    images = machine.choose(6000, 16)
    shared = ["--batch", batch, "--image-size", image, "--precision", "bf16", "--device", machine.device]
    ours = [BUILD / "bin" / "xoe-train", "--model", "resnet50", *shared, "--steps", count + warmup, "--warmup-steps", warmup,
            "--report-every", count + warmup, "--lr", "1e-4", "--lr-batch", "0", "--json"]  # fmt: skip
    theirs = [sys.executable, ROOT / "train/bench/training/torch_worker.py", *shared, "--steps", count, "--warmup", warmup]
    make = [machine.bin / "xoe", "data", "make", "--images", images, "--validation", 0, "--width", 500, "--height", 375,
            "--shards", 16, IMAGES]  # fmt: skip
    return [
        Step("PyTorch, eager", theirs, least=15, timed=True),
        Step("xoe train", [*ours, "--synthetic"], least=15, timed=True),
        Step("make images", ["sh", "-c", 'rm -rf "$0" && exec "$@"', IMAGES, *make], least=5),
        Step("xoe train, images from files", [*ours, "--data", IMAGES], least=15, timed=True),
        Step("PyTorch, torch.compile", [*theirs, "--compile"], limit=100, least=machine.choose(45, 15), timed=True),
    ]


def pinned(machine):
    copies = [sys.executable, HERE / "upload.py", "--device", machine.device, "--mib", machine.choose(147, 4)]
    return [Step("copies", copies, limit=30, least=8, timed=True)]


def results_of_tests(output):
    """Of what ctest printed: each test and how it ended."""
    ends = re.findall(
        r"^ *\d+/\d+ +Test +#\d+: +(\S+) +\.*(?:\*\*\*)? *(Passed|Skipped|Failed|Timeout|Not Run|Exception)",
        output,
        re.MULTILINE,
    )
    return {"tests": [{"test": name, "result": result.lower()} for name, result in ends]}


def python_tests(machine):
    tests = ROOT / "frameworks/tests/python"
    return [
        Step("tensors of the GPU", [sys.executable, tests / "cuda_test.py"], limit=90, least=20),
        Step("what needs no GPU", [sys.executable, tests / "gpu_test.py"], limit=60, least=15),
    ]


def core_tests(machine):
    command = ["ctest", "--test-dir", BUILD, "-L", "gpu", "-LE", "python", "-j", "4", "--output-on-failure", "--timeout", "60"]
    return [Step("ctest", command, figures_of=results_of_tests, limit=120, least=15)]


def vendor_program(name):
    """Where it is installed; its name, if nowhere."""
    installed = sorted(map(str, pathlib.Path("/opt/nvidia").glob("nsight-compute/*")))
    folders = os.pathsep.join([os.environ["PATH"], "/usr/local/cuda/bin", *installed])
    return shutil.which(name, path=folders) or name


def profiler(machine):
    found = vendor_program("ncu")
    return [
        Step(
            "Nsight Compute", [sys.executable, HERE / "ranges.py", found, machine.bin / "xoe"], needs=found, limit=60, least=15
        )
    ]


def sanitizer(machine):
    found = vendor_program("compute-sanitizer")
    test = [
        found,
        "--error-exitcode",
        9,
        "--report-api-errors",
        "no",
        sys.executable,
        ROOT / "frameworks/tests/python/cuda_test.py",
    ]
    return [Step("memcheck", machine.on_ranks(1, *test), {"XOE_TEST_RANK": "1"}, needs=found, limit=120, least=30)]


COLLECTIVES = {"transport": "transport", "wrong": "wrong elements", "refused": "refused"}
PARTS = (
    Part(
        "facts",
        "The machine",
        "Its GPU, driver, PyTorch, NCCL and JAX, and what `xoe doctor` says of them.",
        limit=60,
        least=5,
        steps=facts,
        columns={
            "gpu": "GPU",
            "driver": "driver",
            "torch": "PyTorch",
            "nccl": "NCCL",
            "jax": "JAX",
            "cpu": "processor",
            "doctor": "findings",
        },
    ),
    Part(
        "two_ranks",
        "Two ranks on one GPU",
        "The transport of allreduce (NCCL, or staged through host memory), right sums, and GB/s; then one rank alone, where a call costs"
        " what the library costs.",
        limit=150,
        least=15,
        steps=two_ranks,
        columns=COLLECTIVES,
    ),
    Part(
        "training",
        "Training with PyTorch, one rank",
        "ResNet-50 in bfloat16, by turns, the median of all rounds. What a step is longer than that of PyTorch alone is what data"
        " parallelism costs; all rows must come to the same loss. At least 99 % of NCCL's speed is wanted. With"
        " [`XOE_GPU_WAIT=stream`](reference/nccl.md#waiting) the GPU waits for sums, and not the program.",
        limit=170,
        least=25,
        steps=training,
        columns={"step_ms": "step, ms", "cpu_ms": "processor, ms", "loss": "loss", "rounds": "rounds"},
        compare=("step_ms", "DDP with NCCL", "of NCCL's speed"),
    ),
    Part(
        "killed",
        "A killed rank",
        "One of two ranks with tensors on the GPU is killed: the other one is told which, and can still use its GPU.",
        limit=60,
        least=10,
        steps=killed,
        columns={"told_s": "told after, s"},
    ),
    Part(
        "jax",
        "JAX, and Keras on JAX",
        "Sums of JAX's own `psum` and of `xoe.jax` in `jax.jit`, and two examples that learn to read digits.",
        limit=150,
        least=12,
        steps=jax_and_keras,
        columns={"devices": "devices", "wrong": "wrong elements", "accuracy": "accuracy"},
    ),
    Part(
        "train",
        "xoe train",
        "ResNet-50 in bfloat16, channels last, the same batch for all: one random batch that stays on the GPU, and JPEG files"
        " that Xoe's input pipeline reads.",
        limit=220,
        least=40,
        steps=train,
        columns={"images_per_s": "images/s", "share.data": "share of time waiting for input"},
        needs_build=True,
    ),
    Part(
        "pinned",
        "Copies to the GPU",
        "A batch of images from pageable and from pinned memory, and how much of the copy a training hides behind computing.",
        limit=40,
        least=8,
        steps=pinned,
        columns={
            "pageable_gb_s": "pageable, GB/s",
            "pinned_gb_s": "pinned, GB/s",
            "pin_gb_s": "copy into pinned memory, GB/s",
            "hidden": "share hidden",
        },
    ),
    Part(
        "tests",
        "Tests in Python",
        "Operations, streams and a training on tensors of the GPU, on one rank.",
        limit=120,
        least=20,
        steps=python_tests,
    ),
    Part(
        "core_tests",
        "Tests in C++",
        "The tests labelled `gpu`: the engine's GPU lanes, staging, and NVIDIA's libraries as Xoe declares them.",
        limit=120,
        least=15,
        steps=core_tests,
        needs_build=True,
    ),
    Part(
        "profiler",
        "Ranges in a profiler",
        "Kernels that Nsight Compute finds within a range of Xoe's (NVTX), while a tensor waits for the other rank.",
        limit=60,
        least=15,
        steps=profiler,
        columns={"kernels": "kernels"},
    ),
    Part(
        "sanitizer",
        "compute-sanitizer",
        "The test of GPU tensors on one rank under `compute-sanitizer` (memcheck).",
        limit=120,
        least=30,
        steps=sanitizer,
    ),
)
