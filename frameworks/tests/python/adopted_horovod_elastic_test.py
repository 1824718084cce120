"""Horovod's own tests of elastic training, unchanged: of its states and samplers, of horovod.run with hosts that are discovered, and its
integration tests, which start programs with hosts that come and go, and ranks that fail (adopted/horovod_launch.py stands in for what
they take from inside of Horovod's launcher). docs/guide/from-horovod.md has the reasons for those that differ.
"""

import re

import adopted
import ranks

ranks.use("adopted", "tensorflow")
LEGACY = {"TF_USE_LEGACY_KERAS": "1"}  # the programs are of Keras 2


def run(folder, file, *options, **variables):
    """What pytest prints of a file of tests."""
    tests = adopted.checkout("horovod", file)
    words = [
        ranks.interpreter(),
        "-m",
        "pytest",
        "-v",
        "-rA",
        "-p",
        "horovod_launch",
        "-p",
        "no:cacheprovider",
        *options,
        tests,
    ]
    path = f"{adopted.checkout('horovod', 'test/utils')}:{tests.parent}"
    given = adopted.environment(folder)
    known = ["env", f"PYTHONPATH={given['PYTHONPATH']}:{path}", "sh", "-c", '"$@" || [ $? = 1 ]', "sh"]
    return adopted.call([*known, *words], folder, **variables)


def expect(folder, file, passed=(), different=(), skipped=(), **variables):
    """Runs the tests of a file, each by itself, and compares what becomes of them."""
    wanted = {name: what for names, what in ((passed, "PASSED"), (different, "FAILED"), (skipped, "SKIPPED")) for name in names}
    printed = run(folder, file, "--collect-only", **variables)
    assert set(re.findall(r"<TestCaseFunction (\w+)>", printed)) == set(wanted), printed
    for name, what in wanted.items():
        printed = run(folder, file, "-k", f"{name} and not {name}_", **variables)
        found = re.findall(rf"(?m)^\S+::{name} (PASSED|FAILED|SKIPPED|ERROR)", printed)
        print(f"  {name}: {found}", flush=True)
        assert found == [what], printed


def test_states_and_samplers(folder):
    expect(folder, "test/single/test_torch_elastic.py", ["test_elastic_sampler", "test_elastic_state"])


def test_horovod_run(folder):
    names = ["test_run_with_discovery_script", "test_run_with_hosts"]
    expect(folder, "test/single/test_elastic_run.py", different=names)


def test_programs_of_pytorch(folder):
    """Horovod itself skips those of which it says that they fail."""
    expect(
        folder,
        "test/integration/test_elastic_torch.py",
        passed=["test_all_ranks_failure", "test_hosts_added_and_removed"],
        different=["test_reset_limit", "test_resurrecting_blacklisted_hosts_exponential_backoff"],
        skipped=[
            "test_all_hosts_blacklisted",
            "test_fault_tolerance_without_scaling",
            "test_min_hosts_timeout",
            "test_single_rank_failure",
        ],
    )


def test_programs_of_tensorflow(folder):
    expect(
        folder,
        "test/integration/test_elastic_tensorflow2.py",
        passed=["test_all_ranks_failure", "test_hosts_added_and_removed"],
        different=[
            "test_fault_tolerance_without_scaling",
            "test_reset_limit",
            "test_resurrecting_blacklisted_hosts_exponential_backoff",
            "test_single_rank_failure",
        ],
        skipped=["test_all_hosts_blacklisted", "test_min_hosts_timeout"],
        **LEGACY,
    )


ranks.drive(globals())
