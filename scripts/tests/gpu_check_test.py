#!/usr/bin/env python3
"""measure/gpu: parts that pass, fail, hang or find no time, the build beside them, the record of several runs, the pages that are made of
it, and that docs/gpu.md and README.md are those."""

import contextlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "measure/gpu"))
sys.dont_write_bytecode = True
import background
import check
import page
import parts
import record
import steps


def python(name, code, **more):
    return steps.Step(name, [sys.executable, "-c", code], **more)


def part(part_steps, name="one", limit=30, least=1, **more):
    return parts.Part(
        name, name.title(), "About it.", limit, least, lambda machine: part_steps, {"images_per_s": "images/s"}, **more
    )


class FromWheel(parts.Machine):
    from_wheel = True


@contextlib.contextmanager
def checking(seconds=60, build_steps=()):
    """A check with so many seconds left, and a build that it has begun."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open(pathlib.Path(folder) / "log.txt", "ab") as log,
        contextlib.redirect_stdout(io.StringIO()),
    ):
        build = background.Build(list(build_steps), {}, pathlib.Path(folder) / "build.log", folder)
        if build_steps:
            build.begin()
        try:
            yield check.Check(FromWheel(), time.monotonic() + seconds, log, build, patience=1)
        finally:
            build.end()


def run(given, **more):
    """The result of a part, and the log."""
    with checking(**more) as running:
        result = running.run(given)
        return result, pathlib.Path(running.log.name).read_text()


def wait_for_end(pid):
    """Returns once the process has ended, whether or not its new parent has noticed; the test's time limit is the limit."""
    state = pathlib.Path(f"/proc/{pid}/stat")
    try:
        while state.read_text().split()[2] != "Z":
            time.sleep(0.01)
    except OSError:
        pass


def hang(pid, then=""):
    """Code whose child sleeps in a process group of its own, as those of Ninja do, and is in this file."""
    return f"""if True:
        import pathlib, signal, subprocess
        {then}
        child = subprocess.Popen(["sleep", "600"], process_group=0) if {sys.version_info >= (3, 11)} else subprocess.Popen(["sleep", "600"])
        pathlib.Path({str(pid)!r}).write_text(str(child.pid))
        print('{{"x": 1}}', flush=True)
        child.wait()"""


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

    def test_the_reason_is_the_last_error(self):
        said = "ValueError: one\nxoe.errors.PeerLostError: rank 1 died\nSet SOME_VARIABLE for more\n"
        self.assertEqual(steps.last_line(said), "xoe.errors.PeerLostError: rank 1 died")
        self.assertEqual(steps.last_line("a\nb\n"), "b")

    def test_a_step_that_hangs_is_ended_with_its_children(self):
        for stubborn in ("", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"):
            with tempfile.TemporaryDirectory() as folder:
                pid = pathlib.Path(folder) / "pid"
                result, _ = run(part([python("a", hang(pid, stubborn)), python("b", "pass")], limit=10))
                self.assertEqual(result["status"], "timed out")
                self.assertEqual(result["steps"]["a"]["figures"], {"x": 1})
                self.assertIn("too little time", result["steps"]["b"]["reason"])
                wait_for_end(pid.read_text())

    def test_a_step_has_a_limit_of_its_own(self):
        result, _ = run(part([python("a", "import time; time.sleep(600)", limit=3), python("b", "pass")]))
        self.assertEqual([one["status"] for one in result["steps"].values()], ["timed out", "passed"])

    def test_a_part_with_too_little_time_is_skipped_by_name(self):
        with checking(seconds=20) as running:
            result = running.run(part([python("a", "raise SystemExit('it ran')")], least=40))
        self.assertEqual((result["status"], result["steps"]), ("skipped", {}))
        self.assertRegex(result["reason"], r"^too little time: \d+ s left, 40 needed$")

    def test_a_step_with_too_little_time_leaves_the_part_unfinished(self):
        result, _ = run(part([python("a", "pass"), python("b", "pass", least=50)]))
        self.assertEqual(result["status"], "in part")
        self.assertIn("b: too little time", result["reason"])

    def test_rounds(self):
        figures = "import pathlib; f = pathlib.Path('round'); n = len(f.read_text()) if f.exists() else 0; f.write_text('x' * (n + 1));"
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            parts_root, parts.ROOT = parts.ROOT, pathlib.Path(folder)
            try:
                ask = figures + 'print(\'{"step_ms": %d, "gpu": "x%d"}\' % ((30, 10, 20)[n], n))'
                again = [python("a", ask, again=True), python("a", ask, again=True)]
                result, _ = run(part([python("a", ask), *again, python("a", ask, least=500, again=True)]))
            finally:
                parts.ROOT = parts_root
                os.chdir(ROOT)
        self.assertEqual(result["status"], "passed")
        self.assertEqual(result["steps"]["a"]["figures"], {"step_ms": 20, "gpu": "x2", "rounds": 3})

    def test_what_is_missing_is_skipped(self):
        result, _ = run(part([python("a", "pass", needs="/nowhere/compute-sanitizer"), python("b", "raise SystemExit(77)")]))
        self.assertEqual(result["status"], "skipped")
        self.assertEqual(result["steps"]["a"]["reason"], "no compute-sanitizer")
        self.assertEqual(run(part([steps.Step("a", ["/nowhere/program"])]))[0]["status"], "failed")

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

    def test_every_program_is_there(self):
        for machine in (parts.Machine(), parts.Machine(rehearsal=True), parts.Machine(quick=True)):
            for one in parts.PARTS:
                for step in one.steps(machine):
                    for word in map(str, step.command):
                        if word.startswith(str(ROOT)) and word.endswith(".py"):
                            self.assertTrue(pathlib.Path(word).exists(), word)

    def test_every_program_of_a_part_without_a_build_is_in_the_small_bundle(self):
        bundled = (ROOT / "scripts" / "gpu_bundle.sh").read_text().partition("drivers=(")[2].partition(")")[0].split()
        for machine in (parts.Machine(), parts.Machine(rehearsal=True)):
            for step in [step for one in parts.PARTS if not one.needs_build for step in one.steps(machine)]:
                for word in map(str, step.command):
                    if word.startswith(str(ROOT)) and word.endswith(".py"):
                        name = str(pathlib.Path(word).relative_to(ROOT))
                        self.assertTrue(any(name == one or name.startswith(f"{one}/") for one in bundled), name)

    def test_a_small_budget_has_room_for_the_first_three(self):
        self.assertLess(sum(one.least for one in parts.PARTS[:3]), 120 - check.RESERVE)
        for one in parts.PARTS:
            self.assertLess(one.least, one.limit)
            names = {step.name for step in one.steps(parts.Machine())}
            self.assertLessEqual(
                {step.name for step in one.steps(parts.Machine(quick=True))}, names, "figures of both are merged by name"
            )


class Build(unittest.TestCase):
    def counter(self, folder):
        """A step that counts up in a file, from a child in a group of its own, until it finds a file "end" there."""
        code = f"""if True:
            import os, pathlib, time
            folder = pathlib.Path({str(folder)!r})
            print("[1/4] begun", flush=True)
            if os.fork() == 0:
                os.setpgid(0, 0)
                count = 0
                while not (folder / "end").exists():
                    count += 1
                    (folder / "new").write_text(str(count))
                    (folder / "new").rename(folder / "count")
                    time.sleep(0.005)
                os._exit(0)
            os.wait()"""
        return python("compile", code)

    def count(self, folder):
        file = pathlib.Path(folder) / "count"
        return int(file.read_text()) if file.exists() else 0

    def wait_for_more(self, folder):
        before = self.count(folder)
        while self.count(folder) == before:
            time.sleep(0.01)

    def test_stands_still_while_something_is_measured(self):
        with tempfile.TemporaryDirectory() as folder, checking(build_steps=[self.counter(folder)]) as running:
            self.wait_for_more(folder)
            look = f"import pathlib, time; f = pathlib.Path({folder!r}) / 'count'; a = f.read_text(); time.sleep(0.5); print('{{\"more\": %d}}' % (int(f.read_text()) - int(a)))"
            found = running.run(part([python("timed", look, timed=True), python("not", look)]))["steps"]
            self.assertEqual(found["timed"]["figures"], {"more": 0})
            self.assertGreater(found["not"]["figures"]["more"], 0)
            self.wait_for_more(folder)

    def test_is_modest(self):
        ask = "import json, os; print(json.dumps({'nice': os.nice(0), 'cores': len(os.sched_getaffinity(0))}))"
        with checking(build_steps=[python("ask", ask)]) as running:
            while not running.build.over():  # build.wait() gives it all processors
                time.sleep(0.01)
            said = running.build._log_path.read_text().splitlines()[-1]
        self.assertEqual(json.loads(said), {"nice": 19, "cores": (len(os.sched_getaffinity(0)) + 1) // 2})

    def test_a_part_waits_for_a_build_that_will_end(self):
        with tempfile.TemporaryDirectory() as folder, checking(build_steps=[self.counter(folder)]) as running:
            self.wait_for_more(folder)
            os.system(f"(sleep 0.5; touch {folder}/end) &")
            self.assertEqual(running.run(part([python("a", "pass")], needs_build=True))["status"], "passed")
            self.assertEqual(running.build.results()["compile"]["status"], "passed")

    def test_a_part_does_not_wait_for_a_build_that_will_not_end_in_time(self):
        with tempfile.TemporaryDirectory() as folder, checking(seconds=10, build_steps=[self.counter(folder)]) as running:
            self.wait_for_more(folder)
            running.build._working += 1000
            result = running.run(part([python("a", "pass")], needs_build=True))
            self.assertEqual(result["status"], "skipped")
            self.assertRegex(result["reason"], r"^the build has not ended: 1 of 4 steps, some 15\d\d s more$")
            running.deadline = time.monotonic() + 5
            self.assertEqual(
                running.why_not(part([], needs_build=True, least=3), last=True), "the build has not ended: 1 of 4 steps"
            )
            running.build.end()
            self.assertEqual(running.build.results()["compile"]["status"], "failed")

    def test_a_build_that_fails_skips_what_needs_it(self):
        failing = [python("configure", "raise SystemExit('no compiler')"), python("compile", "pass")]
        with checking(build_steps=failing) as running:
            running.build.wait(60)
            self.assertEqual(running.run(part([python("a", "pass")], needs_build=True))["reason"], "the build failed")
            self.assertEqual(check.build_result(running.build)["reason"], "configure: no compiler")

    def test_ends_with_all_its_processes_even_while_it_stands_still(self):
        with tempfile.TemporaryDirectory() as folder:
            pid = pathlib.Path(folder) / "pid"
            with checking(build_steps=[python("compile", hang(pid))]) as running:
                while not (pid.exists() and pid.read_text()):
                    time.sleep(0.01)
                running.build.pause()
            wait_for_end(pid.read_text())

    def test_without_sources_there_is_none(self):
        with checking() as running:
            self.assertIn("needs sources", running.run(part([python("a", "pass")], needs_build=True))["reason"])
            self.assertEqual(check.build_result(running.build)["status"], "skipped")


# A process that counts GPUs, and prints this.
ASKED = """__import__("subprocess").Popen([sys.executable, "-c", "print({seen})"], stdout=-1, text=True)"""


class Program(unittest.TestCase):
    def test_no_answer_is_not_no_gpu(self):
        for code, expected in (
            ("print(0, 'no GPU')", (0, "no GPU")),
            ("print(2, 'NVIDIA H200')", (2, "NVIDIA H200")),
            ("raise SystemExit(1)", (None, "")),
        ):
            asked = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
            self.assertEqual(check.counted_gpus(asked), expected)

    def start(self, folder, given, *options, wheel=True, rehearse=True, more=""):
        """The check with these parts: code that makes a list of them. `more`: code that runs before the check."""
        code = f"""if True:
            import sys
            sys.dont_write_bytecode = True
            sys.path.insert(0, {str(ROOT / "measure/gpu")!r})
            import check, parts, steps
            def part(name, code, least=1, **more):
                step = steps.Step("a", [sys.executable, "-c", code])
                return parts.Part(name, name, "", 60, least, lambda machine: [step], {{}}, **more)
            parts.PARTS = ({given})
            parts.build = lambda machine: []
            parts.install = lambda: None
            parts.FOLDER = __import__("pathlib").Path({folder!r})
            parts.PACKAGES = parts.FOLDER / "packages"
            (parts.PACKAGES / "xoe/bin").mkdir(parents=True, exist_ok=True)
            if {wheel}:
                (parts.PACKAGES / "xoe/bin/xoe").touch()
            parts.LAYOUT = parts.FOLDER / "layout"
            check.importlib.util.find_spec = lambda name: name
            {more}
            sys.argv = ["check", *{["--rehearse"] * rehearse + list(options)!r}, {folder!r} + "/results"]
            sys.exit(check.main())"""
        return subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=None if rehearse else subprocess.PIPE, text=True
        )

    def test_without_a_gpu_it_says_so_and_runs_no_part(self):
        with tempfile.TemporaryDirectory() as folder:
            ran = pathlib.Path(folder) / "ran"
            touch = f"open({str(ran)!r}, 'w')"
            given = f"part('first', {touch!r}),"
            for seen, message in (("0, 'no GPU'", "PyTorch finds no GPU here"), ("'nothing'", "cannot import PyTorch")):
                count = f"check.begin_to_count_gpus = lambda: {ASKED.format(seen=seen)}"
                process = self.start(folder, given, rehearse=False, more=count)
                ended = process.communicate()[1]
                self.assertEqual(process.returncode, 1)
                self.assertIn(message, ended)
                self.assertFalse(ran.exists())

    def test_keeps_its_budget_and_names_what_it_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            given = "part('first', 'pass'), part('slow', 'import time; time.sleep(600)'), part('last', 'pass', least=20)"
            started = time.monotonic()
            said = self.start(folder, given, "--budget", "20").communicate()[0]
            self.assertLess(time.monotonic() - started, 20)
            results = json.loads((pathlib.Path(folder) / "results/results.json").read_text())
            self.assertEqual([one["status"] for one in results["parts"].values()], ["passed", "timed out", "skipped"])
            self.assertIn("xoe: last is skipped: too little time", said)
            text = (pathlib.Path(folder) / "results/gpu.md").read_text()
            self.assertRegex(text, r"\| last \| skipped \| 0 \| too little time: \d s left, 20 needed \|")
            self.assertIn("no figures of a GPU", text)

    def test_without_wheel_and_sources_it_ends_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            process = self.start(folder, "part('first', 'pass'),", wheel=False)
            process.communicate()
            self.assertEqual(process.returncode, 1)
            self.assertFalse((pathlib.Path(folder) / "results/results.json").exists())

    def test_keeps_parts_of_earlier_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            given = "part('first', 'pass'), part('last', 'pass')"
            for name in ("last", "first"):
                process = self.start(folder, given, "--parts", name)
                process.communicate()
                self.assertEqual(process.returncode, 0)
            results = json.loads((pathlib.Path(folder) / "results/results.json").read_text())
            self.assertEqual(
                {name: one["status"] for name, one in results["parts"].items()}, {"last": "passed", "first": "passed"}
            )

    def test_a_check_that_is_ended_ends_its_step(self):
        with tempfile.TemporaryDirectory() as folder:
            pid = pathlib.Path(folder) / "pid"
            sleep = f"import os, pathlib, time; pathlib.Path({str(pid)!r}).write_text(str(os.getpid())); time.sleep(600)"
            ended = self.start(folder, f"part('first', {sleep!r}),")
            while not (pid.exists() and pid.read_text()):
                self.assertIsNone(ended.poll())
                time.sleep(0.01)
            ended.send_signal(signal.SIGTERM)
            ended.communicate()
            self.assertEqual(ended.returncode, 143)
            wait_for_end(pid.read_text())

    def test_says_what_is_wrong_with_its_options(self):
        for options, why in (
            (["--budget", "5"], "at least 20 s"),
            (["--parts", "nosuch"], "no part nosuch"),
            (["a", "b"], "--into"),
        ):
            error = io.StringIO()
            with contextlib.redirect_stderr(error), self.assertRaises(SystemExit):
                check.parse(options)
            self.assertIn(why, error.getvalue())


def results_of(name="gpu_results.json"):
    return json.loads((pathlib.Path(__file__).parent / name).read_text())


def later(results, date, **statuses):
    """The same run at another date and commit; with other ends of steps of the part training."""
    results = json.loads(json.dumps(results))
    for one in results["parts"].values():
        one |= {"date": date, "commit": "fedcba9876543210"}
    for step, found in results["parts"]["training"]["steps"].items():
        if step in statuses:
            found |= {"status": statuses[step], "reason": "it broke", "figures": {}}
    return results


class Record(unittest.TestCase):
    def test_keeps_the_newest_good_figures_in_any_order(self):
        old, new = (
            results_of(),
            later(results_of(), "2026-12-01T08:00:00Z", **{"DDP with NCCL": "failed", 'DDP with "xoe"': "timed out"}),
        )
        new["parts"]["training"]["steps"]["PyTorch alone"]["figures"]["step_ms"] = 25.0
        for runs in ((old, new), (new, old), (old, new, old)):
            found = record.empty()
            for one in runs:
                found = record.add(found, one)
            training = found["parts"]["training"]
            self.assertEqual(training["PyTorch alone"]["good"]["figures"]["step_ms"], 25.0)
            self.assertEqual(training["PyTorch alone"]["good"]["commit"], "fedcba9876543210")
            self.assertEqual(training["DDP with NCCL"]["good"]["figures"]["step_ms"], 30.0)
            self.assertEqual(training["DDP with NCCL"]["good"]["commit"], "0123456789abcdef")
            self.assertEqual(training["DDP with NCCL"]["newest"]["status"], "failed")
            self.assertIn(
                "| DDP with NCCL | passed; since then failed: it broke (2026-12-01, fedcba987654) |", page.page_of_record(found)
            )

    def test_what_was_skipped_changes_nothing(self):
        old = results_of()
        found = record.add(record.add(record.empty(), old), later(old, "2026-12-01T08:00:00Z", **{"PyTorch alone": "skipped"}))
        self.assertEqual(found["parts"]["training"]["PyTorch alone"]["newest"]["status"], "passed")
        self.assertNotIn("sanitizer", found["parts"])

    def test_merges_into_the_pages(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "run").mkdir()
            (folder / "run" / "results.json").write_text(json.dumps(results_of()))
            readme = folder / "README.md"
            readme.write_text((ROOT / "README.md").read_text())
            self.assertEqual(record.merge_into(folder / "gpu", [folder / "run"], readme), 0)
            self.assertEqual((folder / "gpu.md").read_text(), page.page_of_record(record.load(folder / "gpu")))
            self.assertIn("trains ResNet-50 at 99.3 % of its speed on NCCL", readme.read_text())
            self.assertNotIn("not yet run on a GPU", readme.read_text())
            self.assertEqual(readme.read_text().count("<!-- gpu: "), 2)

    def test_refuses_a_date_in_the_future(self):
        """The machine's clock was ahead: its figures would stay the newest for ever."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "results.json").write_text(json.dumps(later(results_of(), "2999-01-01T00:00:00Z")))
            self.assertIn("in the future", record.merge_into(folder / "gpu", [folder], folder / "README.md"))
            self.assertFalse((folder / "gpu").exists())

    def test_refuses_what_is_of_no_gpu(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for change, why in (({"rehearsal": True}, "rehearsal"), ({"gpus": 0}, "no GPU"), ({"parts": 3}, "cannot be read")):
                (folder / "results.json").write_text(json.dumps(results_of() | change))
                self.assertIn(why, record.merge_into(folder / "gpu", [folder], folder / "README.md"))
            self.assertIn("cannot be read", record.merge_into(folder / "gpu", [folder / "nowhere"], folder / "README.md"))
            self.assertFalse((folder / "gpu").exists())


def page_of_run(results):
    return page.page_of_run(results, record.add(record.empty(), results))


class Page(unittest.TestCase):
    def test_of_one_run(self):
        text = page_of_run(results_of())
        for line in (
            "Commit 0123456789ab, NVIDIA X, driver 580.1; 16 cores of a processor, budget 480 s; 470 s.",
            "| xoe train | in part | 60 | PyTorch, torch.compile: too little time: 31 s left, 45 needed |",
            "| Tests in C++ | failed | 12 | ctest: 1 tests failed out of 3 |",
            "| compute-sanitizer | skipped | 0 | too little time: 3 s left, 30 needed |",
            "| Build | passed | 95.5 |  |",
            "| 4 KiB | 21.5 us, 0.191 GB/s | 14 us, 0.293 GB/s |",
            "| 64 MiB | 1,234 us, 54.4 GB/s |  |",
            "| xoe train | passed | 2,512 | 0.00123 |",
            '| DDP with "xoe" | passed | 30.2 | 99.3 % |',
            "| PyTorch alone | passed | 29 | 103.4 % |",
            "| nccl_staged_test | failed |",
            "| nccl_order_test | passed |",
            "2026-11-23, commit 0123456789ab, NVIDIA X, driver 580.1; 16 cores of a processor.",
        ):
            self.assertIn(line + "\n", text + "\n")
        self.assertNotIn("rehearsal", text.lower().replace("`--rehearse`", ""))

    def test_says_what_is_a_rehearsal(self):
        self.assertIn("**A rehearsal on the CPU", page_of_run(results_of() | {"rehearsal": True}))

    def test_the_sentence(self):
        self.assertEqual(page.sentence(record.empty()), page.NOT_YET)
        self.assertIn(
            "two ranks that share a GPU sum 64 MiB at 54.4 GB/s", page.sentence(record.add(record.empty(), results_of()))
        )

    def test_the_documents_are_the_pages(self):
        known = record.load(ROOT / "docs" / "gpu")
        again = "scripts/gpu_check.sh --into docs/gpu"
        self.assertEqual((ROOT / "docs" / "gpu.md").read_text(), page.page_of_record(known), f"{again} makes it")
        self.assertIn(record.sentence_of_readme(known), record.MARKS.search((ROOT / "README.md").read_text())[0], f"{again} makes it")
        self.assertEqual((ROOT / "README.md").read_text().count("not yet run on a GPU"), 0 if known["parts"] else 1)


if __name__ == "__main__":
    unittest.main()
