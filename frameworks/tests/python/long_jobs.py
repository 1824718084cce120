"""Many things to run on the same ranks, in few processes, since each process takes seconds to import PyTorch.

`run_all()` starts `xoe run` of a script, whose ranks call `in_rank()`. A rank in which something fails or takes too long ends
its job, and a new job goes on with what is left: one failure neither hides the others nor leaves the ranks at different places.
"""

import json
import os
import pathlib
import sys
import tempfile
import threading
import traceback

import ranks

_NAMES, _OUTCOMES = "XOE_TEST_JOB_NAMES", "XOE_TEST_JOB_OUTCOMES"
WORST_FIRST = ("hangs", "fails", "skipped", "passes")


class Skipped(Exception):
    """Raised by what cannot run here."""


def is_rank():
    return _NAMES in os.environ


def in_rank(call, seconds):
    """Calls `call(name)` for each name; its result must be JSON's."""
    outcomes = open(pathlib.Path(os.environ[_OUTCOMES]) / os.environ["XOE_RANK"], "a")

    def tell(name, outcome, said):
        outcomes.write(json.dumps([name, outcome, said]) + "\n")
        outcomes.flush()

    def give_up(name):
        stacks = [f"thread {key}\n{''.join(traceback.format_stack(frame))}" for key, frame in sys._current_frames().items()]
        tell(name, "hangs", f"no end after {seconds} s\n" + "\n".join(stacks))
        os._exit(1)

    for name in pathlib.Path(os.environ[_NAMES]).read_text().split():
        limit = threading.Timer(seconds, give_up, [name])
        limit.daemon = True
        limit.start()
        try:
            tell(name, "passes", call(name))
        except Skipped as why:
            tell(name, "skipped", str(why))
        except BaseException:
            tell(name, "fails", traceback.format_exc())
            os._exit(1)  # at once: the other ranks are waiting for this one
        finally:
            limit.cancel()
    outcomes.close()


def run_all(size, script, names, **variables):
    """For each name the worst outcome of the ranks, and what they said: a text; where all pass, the list of the ranks' results."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="xoe-test-") as folder:
        listed, outcomes = pathlib.Path(folder) / "names", pathlib.Path(folder) / "outcomes"
        while left := [name for name in names if name not in found]:
            listed.write_text("\n".join(left))
            outcomes.mkdir()
            done = ranks.run(size, script, timeout=3600, **variables, **{_NAMES: str(listed), _OUTCOMES: str(outcomes)})
            new = _collect(size, outcomes)
            found.update(new or {left[0]: ("fails", f"exit code {done.returncode}\n{done.stdout}")})
    return found


def _collect(size, outcomes):
    said = {}
    for rank in range(size):
        file = outcomes / str(rank)
        for line in file.read_text().splitlines() if file.exists() else []:
            name, outcome, text = json.loads(line)
            said.setdefault(name, []).append((outcome, text))
        file.unlink(missing_ok=True)
    outcomes.rmdir()
    found = {}
    for name, each in said.items():
        worst, text = min(each, key=lambda pair: WORST_FIRST.index(pair[0]))
        if worst in ("hangs", "fails"):
            found[name] = worst, "\n".join(text for outcome, text in each if outcome in ("hangs", "fails"))
        elif len(each) == size:  # else a rank ended before
            found[name] = worst, [result for _, result in each] if worst == "passes" else text
    return found
