"""The pipelines that are measured: how each is found and started. Each prints one line of JSON (peers/measuring.py)."""

import json
from dataclasses import dataclass
from pathlib import Path

from compare import processes
from compare.processes import GivenUp, json_lines

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).resolve().parent / "peers"
ENVIRONMENTS = ROOT / "build" / "peers"

EXACT, FAST, LIMIT = "Xoe exact", "Xoe fast", "libjpeg-turbo, decode alone"
BEST, NEW, OLD = "tf.data best", "tf.data new way", "tf.data old way"
DALI, TORCHVISION, PIL, MLX = "DALI", "PyTorch, torchvision", "PyTorch, PIL", "mlx-data"
OURS = (EXACT, FAST)
ALL = (EXACT, FAST, LIMIT, BEST, NEW, OLD, DALI, TORCHVISION, PIL, MLX)
# (environment, script, variant)
PYTHON = {
    BEST: ("tfdata", "tfdata.py", "best"),
    NEW: ("tfdata", "tfdata.py", "new"),
    OLD: ("tfdata", "tfdata.py", "old"),
    DALI: ("dali", "dali.py", "random-crop"),
    TORCHVISION: ("pytorch", "pytorch.py", "torchvision"),
    PIL: ("pytorch", "pytorch.py", "pil"),
    MLX: ("mlx", "mlx_data.py", "files"),
}


@dataclass
class Timing:
    threads: int
    seconds: float
    warmup: float

    def words(self):
        return ["--threads", str(self.threads), "--seconds", str(self.seconds), "--warmup", str(self.warmup)]


def environment_of(name):
    """(python, versions) of a peer's environment. Raises GivenUp with the reason when it is not there."""
    folder = ENVIRONMENTS / f"data-{name}"
    stamp, why = folder / "installed", folder.with_suffix(".why")
    if stamp.exists():
        return folder / "bin" / "python", " ".join(stamp.read_text(encoding="utf-8").split())
    if why.exists():
        raise GivenUp("not there: " + why.read_text(encoding="utf-8").strip().splitlines()[-1])
    raise GivenUp(f"not there: data/bench/install_peers.sh {name} was not run")


def command(name, programs, folder, timing):
    """The command that measures `name` on the set in `folder`. Raises GivenUp."""
    if name in OURS:
        # tf.data, DALI and mlx-data do not antialias here: the same work for all.
        words = ["bench", folder, "--json", "--shuffle", "500", "--mode", name.split()[1], "--no-antialias", *timing.words()]
        return [programs / "xoe-data", *words]
    if name == LIMIT:
        program = programs / "xoe_bench_turbo_limit"
        return [program, folder, str(timing.threads), str(timing.seconds), str(timing.warmup)]
    environment, script, variant = PYTHON[name]
    return [environment_of(environment)[0], SCRIPTS / script, variant, folder, *timing.words()]


def version(name, revision):
    if name in OURS:
        return revision
    return "of this system" if name == LIMIT else environment_of(PYTHON[name][0])[1]


def run(words, limit_s):
    """The JSON that a command prints last. Raises GivenUp when it fails or takes longer."""
    found = json_lines(processes.run(words, None, limit_s))
    if not found:
        raise GivenUp("printed no JSON")
    return found[-1]


def records_of_xoe(programs, files, seconds):
    """Bytes per CPU-second of reading record files, every CRC checked."""
    program = programs / "xoe_bench_records"
    if not program.exists():
        raise GivenUp("xoe_bench_records is not built")
    words = [
        program,
        "--benchmark_filter=^read_records/block_KiB/256",
        "--benchmark_format=json",
        f"--benchmark_min_time={seconds}",
    ]
    return json.loads(processes.run([*words, *files], None, 120))["benchmarks"][0]["bytes_per_second"]


def records_of_tfdata(folder, bytes_per_record, seconds):
    python, _ = environment_of("tfdata")
    words = [python, SCRIPTS / "tfdata.py", "records", folder, *Timing(1, seconds, 1).words()]
    return bytes_per_record / (1e-3 * run(words, 120)["cpu_ms_per_image"])
