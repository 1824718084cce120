"""`xoe timeline view --xprof`: XProf's own reader lists the bars and spans of a job of two ranks."""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "core/testing"))
from peer_python import run_inside

run_inside("xprof", "xprof", {})

from xprof.convert import raw_to_tool_data
from xprof.profile_data import ProfileData

BIN = pathlib.Path(os.environ["XOE_BIN_DIR"])
PROGRAM = BIN / "example_named_tensors"


def events_of(trace):
    """How many bars and spans each rank has, by name."""
    count = collections.defaultdict(collections.Counter)
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event["ph"] in "Xb":
            count[event["pid"]][event["name"]] += 1
    return count


class Profile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.trace = self.folder / "run.json"

    def view(self, *words):
        done = subprocess.run([BIN / "xoe", "timeline", "view", self.trace, *words], capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def assert_nests(self, bars):
        """Bars of a line lie in each other, or do not overlap."""
        open_ends = []
        for start, end in sorted(bars, key=lambda bar: (bar[0], -bar[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            self.assertTrue(not open_ends or end <= open_ends[-1], (start, end, open_ends))
            open_ends.append(end)

    def test_a_job_of_two_ranks(self):
        subprocess.run([BIN / "xoe", "run", "-np", "2", PROGRAM], env={**os.environ, "XOE_TIMELINE": str(self.trace)},
                       stdout=subprocess.DEVNULL, timeout=600, check=True)
        wanted = events_of(self.trace)
        self.assertEqual(set(wanted), {0, 1})
        logs = self.folder / "logs"
        self.assertIn(f"tensorboard --logdir {logs}", self.view("--xprof", logs))
        (profile,) = logs.glob("plugins/profile/run/*.xplane.pb")
        with ProfileData.from_file(profile) as data:
            planes = list(data.planes)
            self.assertEqual([plane.name.split(" (")[0] for plane in planes], ["/device:CUSTOM:rank 0", "/device:CUSTOM:rank 1"])
            for rank, plane in enumerate(planes):
                found = collections.Counter(event.name for line in plane.lines for event in line.events)
                self.assertEqual(found, wanted[rank])
                for line in plane.lines:
                    self.assertTrue(line.name)
                    self.assert_nests([(event.start_ns, event.start_ns + event.duration_ns) for event in line.events])
                stats = {name for line in plane.lines for event in line.events for name, _ in event.stats}
                self.assertLessEqual({"bytes", "batch", "tensors", "note"}, stats)
        text, _ = raw_to_tool_data.xspace_to_tool_data([str(profile)], "trace_viewer", {})
        shown = json.loads(text)["traceEvents"]
        names = {event["args"]["name"] for event in shown if event.get("name") == "process_name"}
        self.assertEqual(sum("rank" in name for name in names), 2, names)
        self.assertEqual(sum(event.get("ph") == "X" for event in shown), sum(sum(count.values()) for count in wanted.values()))

    def test_times_and_names(self):
        self.trace.write_text(json.dumps({"traceEvents": [
            {"ph": "M", "name": "thread_name", "pid": 3, "tid": 1, "args": {"name": "compute"}},
            {"ph": "X", "pid": 3, "tid": 1, "ts": 1000, "dur": 2.5, "name": "forward", "args": {"bytes": 7, "note": "x</script>"}},
            {"ph": "X", "pid": 3, "tid": 1, "ts": 1004, "dur": 1, "name": "backward \u2028", "args": {}}]}))
        self.view("--xprof", self.folder)
        (profile,) = self.folder.glob("plugins/profile/run/*.xplane.pb")
        with ProfileData.from_file(profile) as data:
            (plane,) = data.planes
            (line,) = plane.lines
            self.assertEqual(line.name, "compute")
            first, second = line.events
            self.assertEqual([(event.start_ns, event.duration_ns) for event in (first, second)], [(0, 2500), (4000, 1000)])
            self.assertEqual(dict(first.stats), {"bytes": "7", "note": "x</script>"})


if __name__ == "__main__":
    unittest.main()
