"""Horovod's queries for the parts of an installation."""

from pathlib import Path as _Path

_LIBRARIES = _Path(__file__).parent / "lib"
_NCCL_VERSION = 21900  # core/drivers/nccl/nccl.h: the newest functions that it knows


def _plugin(name: str) -> bool:
    return any(_LIBRARIES.glob(f"libxoe-{name}*.so"))


def mpi_built() -> bool:
    """Whether the MPI backend is installed."""
    return _plugin("mpi")


def mpi_enabled() -> bool:
    """Whether ranks may be started by ``mpirun`` and communicate through MPI."""
    return mpi_built()


def mpi_threads_supported() -> bool:
    """Whether several threads may call MPI. Xoe calls it from one at a time: True wherever the MPI backend is installed."""
    return mpi_built()


def gloo_built() -> bool:
    """Whether the Gloo backend is installed."""
    return _plugin("gloo")


def gloo_enabled() -> bool:
    """Whether ranks may communicate through Gloo."""
    return gloo_built()


def nccl_built() -> int:
    """The newest version of NCCL that the backend knows, in NCCL's form: 21900 for 2.19. 0 where it is not installed.

    NCCL itself is loaded at run time, and may be older or newer.
    """
    return _NCCL_VERSION if _plugin("nccl") else 0


def cuda_built() -> bool:
    """Whether CUDA tensors are accepted."""
    return True


def rocm_built() -> bool:
    """False: ROCm is not supported."""
    return False


def ddl_built() -> bool:
    """False: IBM's DDL is not used."""
    return False


def ccl_built() -> bool:
    """False: oneCCL is not used."""
    return False
