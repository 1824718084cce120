"""Questions of programs that were written for Horovod: what this installation can use."""

from __future__ import annotations

from pathlib import Path

_LIBRARIES = Path(__file__).parent.parent / "lib"


def _plugin(name: str) -> bool:
    return any(_LIBRARIES.glob(f"libxoe-{name}*.so"))


def mpi_built() -> bool:
    """Whether the backend for MPI is there."""
    return _plugin("mpi")


def mpi_enabled() -> bool:
    """Whether ranks may be started by ``mpirun`` and talk through MPI."""
    return mpi_built()


def mpi_threads_supported() -> bool:
    """Whether MPI may be used by several threads at once. Xoe calls it from one at a time: True wherever MPI is there."""
    return mpi_built()


def gloo_built() -> bool:
    """Whether the backend for Gloo is there."""
    return _plugin("gloo")


def gloo_enabled() -> bool:
    """Whether ranks may talk through Gloo."""
    return gloo_built()


def nccl_built() -> bool:
    """Whether the backend for NCCL is there; NCCL itself is looked for at run time."""
    return _plugin("nccl")


def cuda_built() -> bool:
    """Whether tensors of CUDA devices are taken."""
    return True


def rocm_built() -> bool:
    """False: ROCm has not been tried."""
    return False


def ddl_built() -> bool:
    """False: IBM's DDL is not used."""
    return False


def ccl_built() -> bool:
    """False: oneCCL is not used."""
    return False
