"""An optimizer that combines the parameter updates of the ranks by Adasum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from xoe import world as _world
from xoe.process_sets import ProcessSet
from xoe.reduction import Adasum
from xoe.torch.collectives import allreduce_async_
from xoe.torch.compression import Compressor
from xoe.torch.names import parameter_names
from xoe.torch.override import Override, Wrapping


class AdasumMixin(Wrapping):
    """Each rank steps with its own gradients; Adasum combines the updates, which are applied to the common start.

    Maleki et al., "Scaling Distributed Training with Adaptive Summation", 2020, section 4.
    """

    def _distribute(
        self,
        named_parameters: Iterable[tuple[str, torch.Tensor]] | None,
        compression: type[Compressor] | Compressor,
        backward_passes_per_step: int,
        process_set: ProcessSet,
    ) -> None:
        self._names = {p: f"adasum.{name}" for p, name in parameter_names(self.param_groups, named_parameters).items()}
        self._listed = list(self._parameters())
        self._added = 0
        self._compression = compression
        self._passes = backward_passes_per_step
        self._calls = 0
        self._starts: dict[torch.Tensor, torch.Tensor] = {}
        self._process_set = process_set

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Sets how many steps a rank makes before updates are combined."""
        self._passes = passes

    def synchronize(self) -> None:
        """Does nothing: no operation is in flight between steps."""

    def abandon(self) -> None:
        """Drops this rank's gradients, of which no reduction is under way between steps. Call it on all ranks."""
        self.zero_grad()  # type: ignore[attr-defined]

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Raises RuntimeError: without combining, the ranks would diverge."""
        raise RuntimeError("skip_synchronize() is not supported with op=Adasum")
        yield

    def _follow_parameters(self) -> None:
        """Names for new ones, where the groups have others than before."""
        if self._has_parameters(self._listed):
            return
        self._listed = list(self._parameters())
        known, self._names = self._names, {}
        for p in self._listed:
            if p not in known:
                self._added += 1
            self._names[p] = known.get(p, f"adasum.added{self._added}")
        for p in self._starts:  # of the update that is under way
            self._names.setdefault(p, known[p])

    @Override
    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Steps on this rank, then, every backward_passes_per_step calls, combines the updates of all ranks."""
        self._follow_parameters()
        for p in self._listed:
            if p.requires_grad and p not in self._starts:
                self._starts[p] = p.detach().clone()
        loss = self._inner("step")(closure)
        self._calls += 1
        if self._calls % self._passes != 0:
            return loss
        if self._process_set.included() and self._process_set.size() > 1:
            sent = []
            for p, start in self._starts.items():
                delta, context = self._compression.compress(p.detach() - start)
                handle = allreduce_async_(delta, None, self._names[p], Adasum, process_set=self._process_set)
                sent.append((p, handle, context))
            for p, handle, context in sent:
                p.copy_(self._starts[p] + self._compression.decompress(handle.wait(), context))
            _world.current().engine.note_step()
        self._starts.clear()
        return loss
