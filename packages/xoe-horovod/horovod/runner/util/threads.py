"""Functions in threads of their own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def in_thread(
    target: Callable[..., Any], args: tuple[Any, ...] = (), name: str | None = None, daemon: bool = True, silent: bool = False
) -> threading.Thread:
    """Starts ``target(*args)`` in a thread and returns the thread. silent: its exceptions are swallowed."""
    if not isinstance(args, tuple):
        raise ValueError(f"args is a {type(args).__name__}; pass a tuple, (arg,) for a single argument")

    def run() -> None:
        with contextlib.suppress(*([Exception] if silent else [])):
            target(*args)

    thread = threading.Thread(target=run, name=name, daemon=daemon)
    thread.start()
    return thread


def on_event(
    event: threading.Event,
    func: Callable[..., Any],
    args: tuple[Any, ...] = (),
    stop: threading.Event | None = None,
    check_stop_interval_s: float = 1.0,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Calls ``func(*args)`` in a thread once the event is set, unless ``stop`` is set before."""
    if event is None:
        raise ValueError("event is None")
    if not isinstance(args, tuple):
        raise ValueError(f"args is a {type(args).__name__}; pass a tuple, (arg,) for a single argument")
    if stop is None and not daemon:
        raise ValueError("a thread that is no daemon needs a stop event")

    def wait() -> None:
        while not event.wait(None if stop is None else check_stop_interval_s):
            if stop is not None and stop.is_set():
                return
        if stop is None or not stop.is_set():
            func(*args)

    return in_thread(wait, name=None, daemon=daemon, silent=silent)


def execute_function_multithreaded(
    fn: Callable[..., Any],
    args_list: list[list[Any]],
    block_until_all_done: bool = True,
    max_concurrent_executions: int = 1000,
) -> dict[int, Any] | None:
    """Calls ``fn`` with each list of arguments, in threads; the results by index, or None if it does not wait for them."""
    calls = [tuple(args) for args in args_list]
    if not block_until_all_done:
        in_thread(lambda: execute_function_multithreaded(fn, args_list, True, max_concurrent_executions), silent=True)
        return None
    with ThreadPoolExecutor(max(1, min(max_concurrent_executions, len(calls)))) as pool:
        futures = [pool.submit(fn, *args) for args in calls]
    if any(future.exception() is not None for future in futures):
        raise RuntimeError(f"{fn.__name__} failed in some threads") from next(f.exception() for f in futures if f.exception())
    return {index: future.result() for index, future in enumerate(futures)}
