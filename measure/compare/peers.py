"""The engines that are compared: how each is found, compiled for and started."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from compare.processes import free_ports

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "core/bench/collectives"

# glibc gives large blocks back to the system at each free, so that an MPI takes page faults in every large call. Told to
# keep them, on huge pages, some become four times faster: both are quoted.
TUNED = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:"
    "glibc.malloc.trim_threshold=17179869184:glibc.malloc.top_pad=67108864"
}


OTHER_COLLECTIVES = ("broadcast", "allgather", "alltoall")


@dataclass
class Peer:
    """One engine. `start(ranks)` lists the processes: (arguments, extra environment); the first gets the pipes."""

    name: str
    start: object
    version: str = ""
    dtypes: tuple = ("float32",)
    collectives: tuple = ("allreduce", *OTHER_COLLECTIVES)


@dataclass
class Mpi:
    """One MPI installation: its launcher, with its options, and its compiler."""

    name: str
    launcher: str
    compiler: str
    family: str  # openmpi, mpich or impi: whose options the launcher takes
    environment: dict = field(default_factory=dict)
    flags: tuple = ()  # what the compiler must be told

    def arguments(self, ranks, program, extra=()):
        crowded = ranks > (os.cpu_count() or 1)
        bind = "none" if crowded else "core"
        if self.family == "openmpi":
            options = ["--bind-to", bind, "--allow-run-as-root"] + (["--oversubscribe"] if crowded else [])
        elif self.family == "impi":
            options = ["-genv", "I_MPI_PIN", "0" if crowded else "1"]
        else:
            options = ["-bind-to", bind]
        return [self.launcher, *options, *extra, "-np", str(ranks), str(program)]


def find_mpis():
    """The MPIs of this machine: Debian's, and those that measure/compare/install_peers.sh put into build/peers."""
    found = []
    for name in ("openmpi", "mpich"):
        launcher, compiler = shutil.which(f"mpirun.{name}"), shutil.which(f"mpicxx.{name}")
        if launcher and compiler:
            found.append(Mpi(name, launcher, compiler, name))
    for name in ("openmpi", "mpich"):
        prefix = ROOT / "build" / "peers" / name
        if (prefix / "bin" / "mpirun").exists():
            paths = {"LD_LIBRARY_PATH": f"{prefix}/lib"}
            found.append(Mpi(f"{name}-pypi", f"{prefix}/bin/mpirun", f"{prefix}/bin/mpicxx", name, paths))
    prefix = ROOT / "build" / "peers" / "impi"
    if (prefix / "bin" / "mpiexec.hydra").exists():
        # Its mpicxx does not know where it was installed.
        flags = (f"-I{prefix}/include", f"-L{prefix}/lib", "-lmpi", f"-Wl,-rpath,{prefix}/lib")
        environment = {
            "I_MPI_ROOT": str(prefix),
            "I_MPI_FABRICS": "shm",
            "LD_LIBRARY_PATH": f"{prefix}/lib:{prefix}/lib/libfabric",
            "FI_PROVIDER_PATH": f"{prefix}/lib/libfabric/prov",
        }
        found.append(Mpi("impi", f"{prefix}/bin/mpiexec.hydra", "g++", "impi", environment, flags))
    return found


def compile_mpi(mpi, program, bin_dir, folder):
    """Compiles core/bench/collectives/mpi_<program>.cc with this MPI; the path, or a CalledProcessError."""
    source = SOURCES / f"mpi_{program}.cc"
    target = folder / f"{mpi.name}_{program}"
    library = ["-L", str(bin_dir), "-lxoe_bench_harness", f"-Wl,-rpath,{bin_dir}"] if program == "collectives" else []
    command = [mpi.compiler, "-std=c++17", "-O3", "-I", str(ROOT), str(source), "-o", str(target), *library, *mpi.flags]
    newest = max(path.stat().st_mtime for path in (source, SOURCES / "harness.h"))
    made_by = folder / f"{mpi.name}_{program}.command"  # of what stands there: it holds the path of the library
    same = made_by.exists() and made_by.read_text(encoding="utf-8") == " ".join(command)
    if not same or not target.exists() or target.stat().st_mtime < newest:
        subprocess.run(
            command, check=True, capture_output=True, text=True, env={**os.environ, **mpi.environment}
        )
        made_by.write_text(" ".join(command), encoding="utf-8")
    return target


def revision():
    """Of this tree."""
    return version_of(["git", "-C", str(ROOT), "describe", "--always", "--dirty"])


def version_of(command, environment=None):
    try:
        out = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=False, env={**os.environ, **(environment or {})}
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = [line.strip() for line in out.splitlines() if line.strip()]
    for line in lines:
        if line.startswith("Version:"):
            return line.split()[-1]
    return lines[0] if lines else ""


def has_ucx(launcher):
    """Whether this Open MPI was built with its UCX layer."""
    info = Path(launcher).resolve().with_name("ompi_info")
    out = version_of([str(info) if info.exists() else "ompi_info", "--param", "pml", "ucx", "--parsable"])
    return bool(out)


def mpi_peers(mpi, bin_dir, folder):
    program = compile_mpi(mpi, "collectives", bin_dir, folder)
    version = version_of([mpi.launcher, "--version"], mpi.environment)

    def peer(suffix, extra=(), environment=None):
        environment = {**mpi.environment, **(environment or {})}
        return Peer(
            mpi.name + suffix,
            lambda ranks: [(mpi.arguments(ranks, program, extra), environment)],
            version,
        )

    peers = [peer("")]
    if mpi.family == "openmpi" and has_ucx(mpi.launcher):
        ucx = ["--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"]
        peers.append(peer("+ucx", ucx))
    if mpi.name in ("openmpi", "mpich"):
        peers.append(peer("-tuned", environment=TUNED))
    return peers


def xoe_launch(bin_dir, ranks, program, *arguments):
    """`xoe run`, as a user would."""
    bind = "core" if ranks <= (os.cpu_count() or 1) else "none"
    run = [str(bin_dir / "xoe"), "run", "-np", str(ranks), "--bind-to", bind, "--no-tag-output"]
    return [*run, str(bin_dir / program), *arguments]


def xoe_peer(bin_dir, memory):
    return Peer(
        f"xoe-{memory}",
        lambda ranks: [(xoe_launch(bin_dir, ranks, "xoe_bench_collectives", memory), {})],
        revision(),
        ("float32", "bfloat16", "float16"),
    )


def gloo_version():
    """Of the PyTorch that brings Gloo; empty where it cannot be imported."""
    question = "import torch, torch.distributed as d; d.is_gloo_available() and print(torch.__version__)"
    return version_of([sys.executable, "-c", question])


def gloo_start(bin_dir, script, *arguments):
    """`start` of a Peer that runs this Python program."""

    def start(ranks):
        command = [sys.executable, str(script), str(bin_dir / "libxoe_bench_harness.so"), *arguments]
        environment = {
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_ports(1)[0]),
            "OMP_NUM_THREADS": "1",
        }
        return [(command, {**environment, "RANK": str(rank)}) for rank in range(ranks)]

    return start


def gloo_peer(bin_dir):
    """Gloo as PyTorch brings it; None where torch cannot be imported."""
    version = gloo_version()
    if not version:
        return None
    start = gloo_start(bin_dir, SOURCES / "gloo_collectives.py")
    return Peer("gloo", start, f"torch {version}", ("float32", "bfloat16", "float16"), ("allreduce", "broadcast"))


def find_peers(bin_dir, folder, wanted, say):
    """All engines that work here, or those of the list `wanted`; what does not work is named with the reason."""
    peers = [xoe_peer(bin_dir, "zero-copy"), xoe_peer(bin_dir, "staged")]
    for mpi in find_mpis():
        if wanted and not any(name.startswith(mpi.name) for name in wanted):
            continue
        try:
            peers += mpi_peers(mpi, bin_dir, folder)
        except subprocess.CalledProcessError as error:
            say(f"{mpi.name}: left out, cannot compile with {mpi.compiler}: {error.stderr.strip().splitlines()[-1:]}")
    if not wanted or "gloo" in wanted:
        gloo = gloo_peer(bin_dir)
        if gloo:
            peers.append(gloo)
        else:
            say("gloo: left out, torch.distributed cannot be imported (requirements/bench.txt)")
    return [peer for peer in peers if not wanted or peer.name in wanted]
