"""A plug-in of pytest: what Horovod's integration tests of elastic jobs reach inside of Horovod's launcher for, by `xoe run`.

They pass the command line of horovodrun to `_run_elastic`, read the message of its error, and set constants of Horovod's driver and
the least number of hosts at the start, which have no counterpart here: the launcher asks a discovery script each second, and starts with the
first hosts that have slots enough.
"""

import importlib
import subprocess
import sys
import types
import unittest.mock

import horovod.runner.launch

from xoe._command import program

# A newcomer loads its program before the others hear of it; the tests' programs wait 3 s for that, and longer if they are told so.
WAIT = ("--discovery-wait", "300")
# The ranks of a host come together, however slowly this machine loads their programs: the tests count changes.
TOGETHER = ("--change-interval", "60")


def module(name, **values):
    """Makes a module, and those above it that there are not."""
    parent, _, own = name.rpartition(".")
    try:
        above = importlib.import_module(parent)
    except ModuleNotFoundError:
        above = module(parent)
    made = types.ModuleType(name)
    vars(made).update(values, __path__=[])
    sys.modules[name] = made
    setattr(above, own, made)
    return made


def run_elastic(words):
    done = subprocess.run([program(), "run", *TOGETHER, *words, *WAIT], stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"Horovod detected that one or more processes exited with non-zero status: xoe run exited with {done.returncode}"
        )


sys.modules.setdefault("mock", unittest.mock)
horovod.runner.launch.parse_args = lambda: sys.argv[1:]
horovod.runner.launch._run_elastic = run_elastic
module("horovod.runner.common.util.config_parser", set_env_from_args=lambda env, args: env)
module("horovod.runner.elastic.constants", RESET_LIMIT_EXCEEDED_MESSAGE="number of resets .* exceeded limit: {}")
module("horovod.runner.elastic.driver", DISCOVER_HOSTS_FREQUENCY_SECS=1, ELASTIC_TIMEOUT_SECS=600)
module("horovod.runner.gloo_run", _get_min_start_hosts=lambda settings: 1)
