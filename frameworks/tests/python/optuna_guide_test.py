"""The guide's search with Optuna: trials of two ranks, of which one dies in some."""

import os
import pathlib
import re
import signal
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "core/testing"))
from peer_python import run_inside

BUILD = pathlib.Path(os.environ.get("XOE_BUILD_DIR", ROOT / "build/release"))
run_inside("trackers", "optuna", {"PYTHONPATH": str(BUILD / "python"), "OMP_NUM_THREADS": "1"})

import optuna

import xoe


def program():
    """What the guide's block defines and finds."""
    page = (ROOT / "docs/guide/sweep.md").read_text()
    block = re.search(r"```python\n(import optuna.*?)```", page, re.DOTALL)[1]
    names = {"__name__": "__main__"}  # so that ranks get the function itself, as of a script
    exec(compile(block, "sweep.md", "exec"), names)
    return names


def doomed(rate):
    import os
    import signal

    import xoe.torch as hvd

    if rate > 0.5 and hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return hvd.size() * rate


class Optuna(unittest.TestCase):
    def test_the_guides_search_learns(self):
        names = program()
        study, train = names["study"], names["train"]
        self.assertEqual([trial.state.name for trial in study.trials], ["COMPLETE"] * 8)
        best = study.best_params
        self.assertEqual(xoe.run(train, args=(best["rate"], best["width"]), num_proc=2), [study.best_value] * 2)
        self.assertLess(study.best_value, 0.9 * xoe.run(train, args=(1e-9, best["width"]), num_proc=2)[0])

    def test_a_trial_whose_rank_dies_has_failed_and_the_search_goes_on(self):
        study = optuna.create_study(sampler=optuna.samplers.GridSampler({"rate": [0.25, 0.75, 0.5]}, seed=0))

        def objective(trial):
            return xoe.run(doomed, args=(trial.suggest_float("rate", 0, 1),), num_proc=2)[0]

        study.optimize(objective, catch=xoe.XoeError)
        states = {trial.params["rate"]: trial.state.name for trial in study.trials}
        self.assertEqual(states, {0.25: "COMPLETE", 0.5: "COMPLETE", 0.75: "FAIL"})
        self.assertEqual(study.best_value, 0.5)

    def test_without_catch_the_error_names_the_rank(self):
        with self.assertRaisesRegex(xoe.XoeError, f"rank 1.*({signal.SIGKILL.name}|signal 9|killed)"):
            xoe.run(doomed, args=(0.75,), num_proc=2)


if __name__ == "__main__":
    unittest.main()
