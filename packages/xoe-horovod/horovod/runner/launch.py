"""``horovodrun`` as a module: ``python -m horovod.runner.launch -np 4 python train.py``."""

from xoe._command import horovodrun as run_commandline

__all__ = ["run_commandline"]

if __name__ == "__main__":
    run_commandline()
