"""Placement groups by Horovod's name."""

from __future__ import annotations

from typing import Any


def create_placement_group(
    resources_per_bundle: dict[str, float], num_bundles: int, pg_timeout: float, pg_strategy: str
) -> tuple[Any, list[dict[str, float]]]:
    """A placement group of equal bundles, once Ray has room for it; raises TimeoutError where it has none in time."""
    import ray
    import ray.util

    bundles = [dict(resources_per_bundle) for _ in range(num_bundles)]
    group = ray.util.placement_group(bundles, strategy=pg_strategy)
    if not ray.wait([group.ready()], timeout=pg_timeout)[0]:
        ray.util.remove_placement_group(group)
        raise TimeoutError(f"Ray found no room for {num_bundles} bundles of {resources_per_bundle} within {pg_timeout:g} s")
    return group, bundles
