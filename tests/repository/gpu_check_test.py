#!/usr/bin/env python3
"""bench/gpu: parts that pass, fail, hang or have no GPU, the page that is made of them, and docs/gpu.md, which is that page."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench" / "gpu"))
sys.dont_write_bytecode = True
import check
import page
import parts


def python(name, code, **more):
    return parts.Step(name, [sys.executable, "-c", code], **more)


def part(steps, limit=30, needs_gpu=False):
    return parts.Part("one", "One", "About one.", limit, lambda machine: steps, {"images_per_s": "images/s"}, needs_gpu=needs_gpu)


def run(given, gpus=0, rehearsal=False):
    """The result of a part, and the log."""
    with tempfile.TemporaryDirectory() as folder, open(pathlib.Path(folder) / "log.txt", "ab") as log:
        result = check.run_part(given, parts.Machine(rehearsal), gpus, log)
        return result, pathlib.Path(log.name).read_text()


def wait_for_end(pid):
    """Returns once the process has ended, whether or not its new parent has noticed; the test's time limit is the limit."""
    state = pathlib.Path(f"/proc/{pid}/stat")
    try:
        while state.read_text().split()[2] != "Z":
            time.sleep(0.01)
    except OSError:
        pass


class Parts(unittest.TestCase):
    def test_figures_are_the_json_lines(self):
        lines = ["noise", '{"images_per_s": 1, "share": {"data": 0.5}}', "{broken", '{"images_per_s": 2.5}']
        result, log = run(part([python("a", f"print({chr(10).join(lines)!r})")]))
        self.assertEqual(result["status"], "passed")
        self.assertEqual(result["steps"]["a"]["figures"], {"images_per_s": 2.5, "share": {"data": 0.5}})
        self.assertIn("noise", log)

    def test_the_steps_after_a_failure_run(self):
        result, _ = run(part([python("a", 'print(\'{"x": 1}\'); raise SystemExit("out of luck")'), python("b", "pass")]))
        self.assertEqual(result["status"], "failed")
        self.assertEqual(result["reason"], "a: out of luck")
        self.assertEqual(result["steps"]["a"]["figures"], {"x": 1})
        self.assertEqual(result["steps"]["b"]["status"], "passed")

    def test_a_step_that_hangs_is_ended_with_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            pid = pathlib.Path(folder) / "pid"
            hang = f"""if True:
                import pathlib, subprocess
                child = subprocess.Popen(["sleep", "600"])
                pathlib.Path({str(pid)!r}).write_text(str(child.pid))
                print('{{"x": 1}}', flush=True)
                child.wait()"""
            started = time.monotonic()
            result, _ = run(part([python("a", hang), python("b", "pass")], limit=2))
            self.assertLess(time.monotonic() - started, 20)
            self.assertEqual(result["status"], "timed out")
            self.assertEqual(result["steps"]["a"]["figures"], {"x": 1})
            self.assertEqual(result["steps"]["b"]["reason"], "no time was left")
            wait_for_end(pid.read_text())

    def test_a_step_that_ignores_the_signal_is_ended_too(self):
        stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        self.assertEqual(run(part([python("a", stubborn)], limit=1))[0]["status"], "timed out")

    def test_a_check_that_is_ended_ends_its_step(self):
        with tempfile.TemporaryDirectory() as folder:
            pid = pathlib.Path(folder) / "pid"
            hang = f"import os, pathlib, time; pathlib.Path({str(pid)!r}).write_text(str(os.getpid())); time.sleep(600)"
            code = f"""if True:
                import sys
                sys.dont_write_bytecode = True
                sys.path.insert(0, {str(ROOT / "bench" / "gpu")!r})
                import check, parts
                hang = parts.Step("hang", [sys.executable, "-c", {hang!r}])
                parts.PARTS = (parts.Part("build", "", "", 60, lambda machine: [hang], {{}}, needs_gpu=False),)
                check.importlib.util.find_spec = lambda name: name
                sys.argv = ["check", {folder!r}]
                sys.exit(check.main())"""
            ended = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
            while not (pid.exists() and pid.read_text()):
                self.assertIsNone(ended.poll())
                time.sleep(0.01)
            ended.terminate()
            self.assertEqual(ended.wait(60), 143)
            wait_for_end(pid.read_text())

    def test_without_a_gpu_parts_are_skipped(self):
        never = [python("a", "raise SystemExit('it ran')")]
        result, _ = run(part(never, needs_gpu=True))
        self.assertEqual((result["status"], result["reason"], result["steps"]), ("skipped", "no GPU", {}))
        self.assertEqual(run(part(never, needs_gpu=True), gpus=1)[0]["status"], "failed")
        self.assertEqual(run(part(never, needs_gpu=True), rehearsal=True)[0]["status"], "failed")

    def test_what_is_missing_is_skipped(self):
        result, _ = run(part([python("a", "pass", needs="/nowhere/compute-sanitizer"), python("b", "raise SystemExit(77)")]))
        self.assertEqual(result["status"], "skipped")
        self.assertEqual(result["steps"]["a"]["reason"], "no compute-sanitizer")
        self.assertEqual(run(part([parts.Step("a", ["/nowhere/program"])]))[0]["status"], "failed")

    def test_variables(self):
        os.environ["XOE_LEFT_OVER"] = "1"
        show = "import json, os; print(json.dumps({'left': 'XOE_LEFT_OVER' in os.environ, 'own': os.environ['XOE_GPU']}))"
        result, _ = run(part([python("a", show, variables={"XOE_GPU": "host"})]))
        self.assertEqual(result["steps"]["a"]["figures"], {"left": False, "own": "host"})

    def test_outcomes_of_ctest(self):
        output = """
      1/14 Test  #92: nccl_order_test ............   Passed    0.11 sec
      2/14 Test #120: python_cuda ................***Skipped   0.30 sec
      3/14 Test #121: python_cuda_kill ...........***Failed    2.30 sec
      4/14 Test #122: slow .......................***Timeout  60.00 sec
"""
        found = {row["test"]: row["result"] for row in parts.results_of_tests(output)["tests"]}
        self.assertEqual(
            found, {"nccl_order_test": "passed", "python_cuda": "skipped", "python_cuda_kill": "failed", "slow": "timeout"}
        )

    def test_all_limits_make_twenty_minutes(self):
        ends = 2 * check.GRACE * len(parts.PARTS)
        self.assertLessEqual(sum(one.limit for one in parts.PARTS) + ends + check.COUNTING, 20 * 60)

    def test_every_program_is_there(self):
        for machine in (parts.Machine(), parts.Machine(rehearsal=True)):
            for one in parts.PARTS:
                for step in one.steps(machine):
                    for word in map(str, step.command):
                        if word.startswith(str(ROOT)) and word.endswith(".py"):
                            self.assertTrue(pathlib.Path(word).exists(), word)


class Page(unittest.TestCase):
    def results(self):
        return json.loads((pathlib.Path(__file__).parent / "gpu_results.json").read_text())

    def test_of_canned_results(self):
        text = page.page(self.results())
        for line in (
            "Commit 0123456789ab, 2026-11-23, 16 cores, 1 GPU.",
            "| xoe train | timed out | 220 | PyTorch, torch.compile: ended after 31 s |",
            "| Tests | failed | 12 | ctest: 1 tests failed out of 3 |",
            "| compute-sanitizer | skipped | 0 | memcheck: no compute-sanitizer |",
            "| 4 KiB | 21.5 us, 0.191 GB/s | 14 us, 0.293 GB/s |",
            "| 64 MiB | 1,234 us, 54.4 GB/s |  |",
            "| xoe train | passed | 2,512 | 0.00123 |",
            "| python_cuda_kill | failed |",
            "skipped: no GPU",
        ):
            self.assertIn(line + "\n", text + "\n")
        self.assertNotIn("rehearsal", text.lower().replace("`--rehearse`", ""))

    def test_says_what_is_a_rehearsal(self):
        self.assertIn("**A rehearsal on the CPU", page.page(self.results() | {"rehearsal": True}))

    def test_the_document_is_the_page(self):
        figures = ROOT / "docs" / "gpu.json"
        given = json.loads(figures.read_text()) if figures.exists() else None
        self.assertEqual((ROOT / "docs" / "gpu.md").read_text(), page.page(given), "bench/gpu/page.py > docs/gpu.md makes it")


if __name__ == "__main__":
    unittest.main()
