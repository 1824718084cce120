"""Horovod's own tests of elastic training, unchanged: of its states and samplers, of horovod.run with hosts that are discovered, and its
integration tests, which start programs with hosts that come and go, and ranks that fail (adopted/horovod_launch.py stands in for what
they take from inside of Horovod's launcher). docs/guide/from-horovod.md has the reasons for those that differ.
"""

import re

import adopted
import ranks

ranks.use("adopted", "tensorflow")
LEGACY = {"TF_USE_LEGACY_KERAS": "1"}  # the programs are of Keras 2


def outcomes(folder, file, *options, **variables):
    """What became of each test of a file."""
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
    printed = adopted.call(
        ["env", f"PYTHONPATH={given['PYTHONPATH']}:{path}", "sh", "-c", '"$@" || [ $? = 1 ]', "sh", *words], folder, **variables
    )
    found = dict(re.findall(r"^\S+::(\w+)(?:\[[^\]]*\])? (PASSED|FAILED|SKIPPED|ERROR)", printed, re.MULTILINE))
    assert found, printed
    return found, printed


def expect(found, passed, different=(), skipped=()):
    results, printed = found
    by = {
        kind: sorted(name for name, what in results.items() if what == kind)
        for kind in ("PASSED", "FAILED", "SKIPPED", "ERROR")
    }
    print(f"  {by}", flush=True)
    assert by == {"PASSED": sorted(passed), "FAILED": sorted(different), "SKIPPED": sorted(skipped), "ERROR": []}, printed


def test_states_and_samplers(folder):
    expect(outcomes(folder, "test/single/test_torch_elastic.py"), ["test_elastic_sampler", "test_elastic_state"])


def test_horovod_run(folder):
    expect(
        outcomes(folder, "test/single/test_elastic_run.py"),
        [],
        different=["test_run_with_discovery_script", "test_run_with_hosts"],
    )


def test_programs_of_pytorch(folder):
    """Horovod itself skips those of which it says that they fail."""
    expect(
        outcomes(folder, "test/integration/test_elastic_torch.py"),
        ["test_all_ranks_failure", "test_hosts_added_and_removed"],
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
        outcomes(folder, "test/integration/test_elastic_tensorflow2.py", **LEGACY),
        ["test_all_ranks_failure", "test_hosts_added_and_removed"],
        different=[
            "test_fault_tolerance_without_scaling",
            "test_reset_limit",
            "test_resurrecting_blacklisted_hosts_exponential_backoff",
            "test_single_rank_failure",
        ],
        skipped=["test_all_hosts_blacklisted", "test_min_hosts_timeout"],
    )


ranks.drive(globals())
