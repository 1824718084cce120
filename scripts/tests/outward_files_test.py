"""The files that tell the outside how this project works agree with how it works."""

import contextlib
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "scripts"), str(ROOT / "docs/site")]
sys.dont_write_bytecode = True
import run_tests
import version

VERSION = version.project_version()


class Manners(unittest.TestCase):
    def test_the_workflow_runs_every_tier(self):
        workflow = (ROOT / ".github/workflows/tests.yml").read_text()
        tiers = re.search(r"tier: \[([^\]]+)\]", workflow)[1].split(", ")
        self.assertEqual(sorted(["core", *tiers]), sorted(run_tests.TIERS))
        self.assertIn("run: .ci/run", workflow)
        self.assertIn("make test", (ROOT / ".ci/run").read_text())

    def test_a_tier_without_time_is_named_and_no_failure_while_one_that_never_ran_is(self):
        passed = {"passed": 3, "unchanged": 0, "skipped": 0, "failed": [], "chosen": "all"}
        cut = {"cut": "2026-01-01 00:00:00"}
        for tiers, code, words in (
            ({"core": passed, "tsan": cut}, 0, "3 passed, 0 failed (tiers: core; tsan was left out"),
            ({"tsan": cut}, 0, "0 passed, 0 failed (tiers: none; tsan was left out"),
            ({"core": passed, "tsan": None}, 1, "failed: tsan: the build or ctest itself"),
        ):
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
                record = pathlib.Path(folder) / "record.json"
                record.write_text(json.dumps({"tiers": {name: tier for name, tier in tiers.items() if tier}}))
                with mock.patch.object(run_tests, "RECORD", record):
                    self.assertEqual(run_tests.summary(list(tiers)), code)
                self.assertIn(words, printed.getvalue())

    def test_warnings_are_errors_in_the_presets_alone(self):
        self.assertRegex((ROOT / "CMakeLists.txt").read_text(), r"option\(XOE_WERROR [^)]* OFF\)")
        self.assertNotIn("XOE_WERROR", (ROOT / "pyproject.toml").read_text())
        presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
        self.assertEqual(presets[0]["cacheVariables"]["XOE_WERROR"], "ON")
        for number, preset in enumerate(presets[1:], 1):
            self.assertIn(preset["inherits"], [before["name"] for before in presets[:number]])
            self.assertNotIn("XOE_WERROR", preset.get("cacheVariables", {}))

    def test_commands_of_the_workflow_exist(self):
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        for target in re.findall(r"run: make (\w+)", (ROOT / ".github/workflows/tests.yml").read_text()):
            self.assertIn(target, targets)

    def test_the_citation_has_the_version(self):
        self.assertIn(f"\nversion: {VERSION}\n", (ROOT / "CITATION.cff").read_text())

    def test_the_changelog_has_the_version(self):
        self.assertIn(f"## [{VERSION}]", (ROOT / "CHANGELOG.md").read_text())

    def test_hooks_call_what_is_there(self):
        hooks = (ROOT / ".pre-commit-config.yaml").read_text()
        for path in re.findall(r"(?:scripts|[a-z]+/tests)/[\w/]+\.(?:py|sh)\b", hooks):
            self.assertTrue((ROOT / path).exists(), path)

    def test_the_container_is_the_pinned_system(self):
        container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
        self.assertEqual(container["image"], "debian:12")

    def test_images_are_made_of_one_pinned_system(self):
        recipe = (ROOT / "deploy/apptainer/xoe.def").read_text()
        base = re.search(r"^From: (.+)$", recipe, re.MULTILINE)[1]
        self.assertRegex(base, r"^debian:bookworm-20\d{6}-slim$")
        docker = (ROOT / "deploy/docker/Dockerfile").read_text()
        self.assertIn(f"ARG BASE={base}\n", docker)
        self.assertEqual(re.findall(r"^FROM (\S+)", docker, re.MULTILINE), ["${BASE}", "${BASE}"])
        self.assertRegex(docker, r"(?m)^USER \$\{USER_ID\}$")
        for file in (docker, recipe):
            for path in re.findall(r"deploy/[\w/]+\.sh", file):
                self.assertTrue((ROOT / path).exists(), path)
        ignored = (ROOT / ".dockerignore").read_text().splitlines()
        for path in (".git", ".venv", "build/*", "!build/wheels"):
            self.assertIn(path, ignored)

    def test_pins_have_hashes(self):
        for name in ("bench", "core", "docs", "lint", "nccl", "tools"):
            text = (ROOT / f"requirements/{name}.txt").read_text()
            pins = re.findall(r"^[\w.-]+==", text, re.MULTILINE)
            blocks = re.findall(r"^[\w.-]+==.*(?:\\\n.*--hash=sha256:[0-9a-f]{64}.*)+", text, re.MULTILINE)
            self.assertEqual(len(blocks), len(pins), name)


if __name__ == "__main__":
    unittest.main()
