"""One pass over a dataset, from one or more native loaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from framespool import _framespool

B = TypeVar("B")


class _LostBatch(Exception):
    """Marks a batch that was made and did not arrive."""


class EpochIterator(Iterator[B]):
    """One pass over the dataset. After an error the following batches remain available.

    Args:
        loaders: The native loaders, each with its own number of the pass.
        make: Builds a batch from the results of all loaders.
        check: Called after each batch with `False`, and at the end with `True`; its error replaces the batch.
        fetch: Takes the next batch of a pass from a native loader. `None`: the loader's `next_batch`.
    """

    def __init__(
        self,
        loaders: list[tuple[_framespool.Loader, int]],
        make: Callable[[list[dict[str, Any]]], B],
        check: Callable[[bool], None] | None = None,
        fetch: Callable[[_framespool.Loader, int], Any] | None = None,
    ) -> None:
        self._loaders = loaders
        self._make = make
        self._check = check
        self._fetch = fetch
        #: Results of the first loaders for the next batch. All loaders stay at the same batch, even if one fails:
        #: results are kept until the last loader has returned its own.
        self._given: list[dict[str, Any] | Exception | None] = []
        #: The number of that batch.
        self._coming: int | None = None

    def replace(self, other: Iterator[B]) -> None:
        """Continues with the pass of another iterator, which must not be used any more.

        Args:
            other: The iterator.
        """
        vars(self).update(vars(other))

    def __next__(self) -> B:
        while len(self._given) < len(self._loaders):
            if not self._given:
                numbers = [native.next_batch_index(number) for native, number in self._loaders]
                self._coming = min((number for number in numbers if number is not None), default=None)
            native, number = self._loaders[len(self._given)]
            before = native.next_batch_index(number)
            if before is not None and self._coming is not None and before > self._coming:
                # A signal arrived between the engine's return and the append: KeyboardInterrupt dropped the
                # batch, so the results of the other loaders for it are dropped too.
                self._given.append(_LostBatch())
                continue
            try:
                self._given.append(self._fetch(native, number) if self._fetch else native.next_batch(number))
            except Exception as error:
                if native.next_batch_index(number) == before:
                    raise  # nothing was taken: the next call requests the same batch
                self._given.append(error)
        given, self._given = self._given, []
        if any(isinstance(batch, _LostBatch) for batch in given):
            return next(self)
        made = [batch for batch in given if isinstance(batch, dict)]
        for batch in given:
            if isinstance(batch, Exception):
                raise batch
        ended = len(made) < len(self._loaders) or not made
        check = self._check
        if ended:
            self._loaders, self._check, self._fetch = [], None, None
        if check is not None:
            check(ended)
        if ended:
            raise StopIteration
        return self._make(made)
