"""horovod.ray and horovod.data on packages/xoe-horovod: names and defaults, what is refused, and Horovod's own test/single/test_ray.py.

XOE_HOROVOD_CHECKOUT: a checkout of Horovod 0.28.1 or later; its tests are skipped without.
"""

import os
import sys
import threading
import unittest

import clusters

clusters.inside(
    __file__, "ray", "ray", "torch", "pytest", "grpc", RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0"
)

import cases
import horovod.ray
import pytest
import ray
from checks import raises
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader
from horovod.ray import ElasticRayExecutor, RayExecutor
from horovod.ray.ray_logger import log

import xoe

CHECKOUT = os.environ.get("XOE_HOROVOD_CHECKOUT")
# Arguments in Horovod's order, with its defaults.
SIGNATURES = {
    RayExecutor.create_settings: "timeout_s=30|ssh_identity_file=None|ssh_str=None|placement_group_timeout_s=100|nics=None",
    RayExecutor: "settings|num_workers=None|num_hosts=None|num_workers_per_host=1|cpus_per_worker=1|use_gpu=False|gpus_per_worker=None"
    "|use_current_placement_group=True|min_workers=None|max_workers=None|reset_limit=None|cooldown_range=None|elastic_timeout=600"
    "|override_discovery=True",
    RayExecutor.start: "self|executable_cls=None|executable_args=None|executable_kwargs=None|extra_env_vars=None",
    RayExecutor.execute: "self|fn|callbacks=None",
    RayExecutor.run: "self|fn|args=None|kwargs=None|callbacks=None",
    RayExecutor.run_remote: "self|fn|args=None|kwargs=None",
    RayExecutor.execute_single: "self|fn",
    RayExecutor.shutdown: "self",
}


def test_signatures():
    clusters.compare_signatures(SIGNATURES)
    assert set(horovod.ray.__all__) == {"BaseHorovodWorker", "ElasticRayExecutor", "RayExecutor"}


def test_refusals():
    raises(xoe.UnsupportedError, lambda: ElasticRayExecutor(None), "RayExecutor", "num_workers")
    raises(xoe.UnsupportedError, lambda: ElasticRayExecutor.create_settings(), "RayExecutor")
    settings = RayExecutor.create_settings()
    raises(xoe.UnsupportedError, lambda: RayExecutor(settings, min_workers=1), "min_workers")
    raises(ValueError, lambda: RayExecutor(settings, num_workers=1, gpus_per_worker=1), "use_gpu")
    raises(ValueError, lambda: RayExecutor(settings, num_workers=1, use_gpu=True, gpus_per_worker=-1), "at least 1")


def test_callbacks():
    """What rank 0 logs comes to the driver's callbacks."""

    def call(worker):
        import horovod.torch as hvd

        hvd.init()
        log({"rank": hvd.rank()})
        return os.environ["TEST_A"]

    got = []
    ray.init(num_cpus=2)
    try:
        executor = RayExecutor(RayExecutor.create_settings(), num_workers=2)
        executor.start(extra_env_vars={"TEST_A": 5})
        assert executor.execute(call, callbacks=[got.append]) == ["5", "5"]
        assert executor.execute_single(lambda worker: worker) is None
        executor.shutdown()
    finally:
        ray.shutdown()
    assert got == [{"rank": 0}], got


class Numbers(BaseDataLoader):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def _iterate(self):
        for number in range(self.count):
            if number == 5:
                raise ValueError("batch 5")
            yield number

    def _process_batch(self, batch):
        return batch * 10


class Ahead(AsyncDataLoaderMixin, Numbers):
    pass


def test_loaders():
    assert list(Numbers(3)) == [0, 10, 20]
    for size in (0, 1, 64):
        loader = Ahead(size, False, 3)
        assert [list(loader) for _ in range(3)] == [[0, 10, 20]] * 3 and len(loader) == 3
        loader.close_async_loader()
    broken = Ahead(4, count=9)
    raises(ValueError, lambda: list(broken), "batch 5")
    broken.close_async_loader()
    raises(RuntimeError, lambda: list(broken), "closed")
    early = Ahead(2, count=4)
    assert next(iter(early)) == 0
    early.close_async_loader()
    assert not [thread for thread in threading.enumerate() if thread.name == "xoe-loader"]


class Counts:
    """A plug-in of pytest that counts outcomes."""

    def __init__(self):
        self.passed, self.skipped, self.failed = set(), set(), set()

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.skipped:
            self.skipped.add(report.nodeid)
        elif report.when == "call":
            self.passed.add(report.nodeid)


def test_horovods_own():
    if not CHECKOUT:
        raise unittest.SkipTest("XOE_HOROVOD_CHECKOUT is not the path of a checkout of Horovod")
    folder = os.path.join(CHECKOUT, "test", "single")
    os.environ["PYTHONPATH"] = os.pathsep.join([os.environ["PYTHONPATH"], folder])  # workers import the tests' functions
    init = ray.init
    # Newer releases of Ray refuse an argument that the tests give.
    ray.init = lambda *args, _redis_max_memory=None, **more: init(*args, **more)
    counts = Counts()
    try:
        pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short", os.path.join(folder, "test_ray.py")], plugins=[counts])
    finally:
        ray.init = init
    print(
        f"  {len(counts.passed)} pass, {len(counts.skipped)} skipped, {len(counts.failed)} fail: {sorted(counts.failed)}",
        flush=True,
    )
    assert not counts.failed, counts.failed
    assert len(counts.passed) >= 20 and len(counts.passed | counts.skipped) >= 22, counts.passed


if __name__ == "__main__":
    sys.exit(cases.run(cases.chosen(cases.functions(globals()), sys.argv[1:])))
