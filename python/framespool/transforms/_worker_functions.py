"""Functions of single clips on threads, ahead of the thread that takes batches."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from framespool._common.interrupts import interrupts_deferred
from framespool.errors import ArgumentError
from framespool.transforms._functions import PerClip, collated, key_at, seed_of, torch_module

if TYPE_CHECKING:
    from concurrent.futures import Future


class ClipWorkers:
    """Threads that apply functions to the clips of batches.

    Args:
        functions: The functions, in turn.
        num_threads: Number of threads.
    """

    def __init__(self, functions: Sequence[PerClip], num_threads: int) -> None:
        from concurrent.futures import Future, ThreadPoolExecutor  # loads logging, which most programs do not need

        self._functions = functions
        self._new_result = Future
        self._torch = torch_module(functions[0])
        self._pool = ThreadPoolExecutor(num_threads, thread_name_prefix="fsp-per-clip")

    def start(self, frames: Any, layout: str, keys: Sequence[tuple[int, ...]]) -> Future[Any]:
        """Starts the functions for a batch.

        Args:
            frames: A Tensor, or a list of Tensors.
            layout: Its layout, with N.
            keys: Numbers that identify each clip.

        Returns:
            The frames of the batch, or the error of its first clip that failed.
        """
        clips = [each.torch() for each in frames] if isinstance(frames, list) else frames.torch()
        done: Future[Any] = self._new_result()
        results: list[Any] = [None] * len(keys)
        errors: dict[int, BaseException] = {}
        left, lock = [len(keys)], threading.Lock()

        def one(row: int) -> None:
            try:
                results[row] = self._apply(clips[row], layout.removeprefix("N"), keys[row])
            except BaseException as error:  # it belongs to the batch; the thread goes on
                errors[row] = error
            with lock:
                left[0] -= 1
                if left[0] > 0:
                    return
            try:
                if errors:
                    raise errors[min(errors)]
                done.set_result(collated(self._torch, results))
            except BaseException as error:
                done.set_exception(error)

        with interrupts_deferred():
            for row in range(len(keys)):
                self._pool.submit(one, row)
        return done

    def _apply(self, clip: Any, layout: str, key: tuple[int, ...]) -> Any:
        for place, function in enumerate(self._functions):
            generator = self._torch.Generator().manual_seed(seed_of(key_at(key, place)))
            with _mode_class()(generator, function):
                clip = function._one(self._torch, clip, layout)
        return clip


@functools.cache
def _mode_class() -> Any:
    """The class of a context manager that gives a thread random numbers of its own.

    PyTorch's default generator belongs to the process. In this context each operator that would draw from it gets the
    generator of the thread, from which it draws what it would draw from a default generator with the same seed.
    """
    torch: Any = importlib.import_module("torch")
    dispatch: Any = importlib.import_module("torch.utils._python_dispatch")

    @functools.cache
    def with_generator(operator: Any) -> Any:
        """Returns the overload that takes a generator; `None` if the operator draws no random numbers."""
        if torch.Tag.nondeterministic_seeded not in operator.tags:
            return None
        packet, name = operator.overloadpacket, operator._overloadname
        names = [name, "generator" if name == "default" else f"{name}_generator"]
        for overload in names:
            found = getattr(packet, overload, None)
            if found is not None and any(argument.name == "generator" for argument in found._schema.arguments):
                return found
        return operator

    class ThreadGenerator(dispatch.TorchDispatchMode):  # type: ignore[misc]
        def __init__(self, generator: Any, function: PerClip) -> None:
            super().__init__()
            self._generator = generator
            self._function = function

        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            random = with_generator(operator)
            if random is None or kwargs.get("generator") is not None:
                return operator(*args, **kwargs)
            if not any(argument.name == "generator" for argument in random._schema.arguments):
                raise ArgumentError(
                    f"{self._function!r}: the operator {operator} takes no generator, so its random numbers would "
                    'depend on the order of the threads; use on="consumer"'
                )
            return random(*args, **{**kwargs, "generator": self._generator})

    return ThreadGenerator
