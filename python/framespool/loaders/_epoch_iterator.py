"""One pass over a dataset, from one or more native loaders."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from framespool.errors import CancelledError
from framespool.loaders._engine import Engine

if TYPE_CHECKING:
    from concurrent.futures import Future

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
        start: Called with each batch once it is taken; its result is awaited before the batch is built, and replaces
            its frames. `None`: nothing is awaited.
        ahead: Batches that are taken before the one that is delivered, with `start`.
        known: What `BaseLoader._iterate()` was called with.
        length: Number of batches of the epoch. `None`: no newer iterator is started.
    """

    def __init__(
        self,
        loaders: list[tuple[Engine, int]],
        make: Callable[[list[dict[str, Any]]], B],
        check: Callable[[bool], None] | None = None,
        fetch: Callable[[Engine, int], Any] | None = None,
        start: Callable[[list[dict[str, Any]]], Future[Any]] | None = None,
        ahead: int = 0,
        known: Callable[[], bytes] | None = None,
        length: int | None = None,
    ) -> None:
        self._loaders = loaders
        self._native = loaders[0][0]
        self._make = make
        self._check = check
        self._fetch = fetch
        #: Results of the first loaders for the next batch. All loaders stay at the same batch, even if one fails:
        #: results are kept until the last loader has returned its own.
        self._given: list[dict[str, Any] | Exception | None] = []
        #: The number of that batch.
        self._coming: int | None = None
        #: Results of all loaders for a batch whose making was interrupted.
        self._unmade: list[dict[str, Any]] | None = None
        #: Batches taken so far.
        self._taken = 0
        self._start = start
        self._ahead = ahead
        self.known = known
        self._length = length
        #: The first batch that is not delivered because a newer iterator was started.
        self._superseded_at: int | None = None
        #: Batches that were taken and not delivered: number, results of the loaders, and what is awaited or an error.
        self._waiting: deque[tuple[int, list[dict[str, Any]], Future[Any] | Exception]] = deque()
        #: Their numbers. The loader shares them, and nothing else: they outlive the iterator.
        self.waiting_numbers: list[int] = []

    def replace(self, other: Iterator[B]) -> None:
        """Continues with the pass of another iterator, which must not be used any more.

        Args:
            other: The iterator.
        """
        vars(self).update(vars(other))

    def __next__(self) -> B:
        if self._superseded_at is not None:
            raise CancelledError(
                f"batch {self._superseded_at} and the later ones of this iteration are not delivered, since a newer "
                "iterator of the loader was started: a loader serves one iterator at a time; create a loader for each"
            )
        if self._start is None:
            made = self._take() if self._unmade is None else self._unmade
            try:
                batch = self._make(made)
            except KeyboardInterrupt:
                # It may have interrupted the decoding of samples that replace others: the next call continues.
                self._unmade, self.waiting_numbers[:] = made, [made[0]["batch_index"]]
                raise
            except BaseException:
                self._made()
                raise
            self._made()
            return batch
        if self._waiting:
            self._native.next_batch_index(0)  # raises in a forked process, which has no threads to wait for
        while self._loaders and len(self._waiting) <= self._ahead:
            self._take_ahead(self._start)
        if not self._waiting:
            raise StopIteration
        _, made, awaited = self._waiting[0]
        if isinstance(awaited, Exception):
            self._delivered()
            raise awaited
        try:
            made[0]["awaited"] = awaited.result()
        except BaseException:
            if awaited.done():  # else KeyboardInterrupt: the next call awaits the same batch
                self._delivered()
            raise
        self._delivered()
        return self._make(made)

    def cancel(self) -> None:
        """Ends the pass: batches that were taken ahead are not delivered, and `next` raises StopIteration."""
        self._loaders, self._given, self._unmade, self._check = [], [], None, None
        self._waiting.clear()

    def undelivered(self) -> int | None:
        """Returns the next batch.

        Returns:
            Its number, or `None` if all batches of the epoch are delivered or the pass has ended.
        """
        if self._waiting:
            return self._waiting[0][0]
        if self._unmade is not None:
            return int(self._unmade[0]["batch_index"])
        numbers = [native.next_batch_index(number) for native, number in self._loaders]
        found = [number for number in numbers if number is not None]
        if not found or len(found) < len(numbers) or self._length is None:
            return None
        return number if (number := min(found)) < self._length else None

    def supersede(self, undelivered: int | None) -> None:
        """Ends the pass because a newer iterator of the loader was started.

        Args:
            undelivered: What `undelivered()` returned before the loader started its pass.
        """
        self.cancel()
        self._superseded_at = undelivered

    def _made(self) -> None:
        self._unmade = None
        self.waiting_numbers.clear()

    def _delivered(self) -> None:
        self._waiting.popleft()
        self.waiting_numbers[:] = [number for number, _, _ in self._waiting]

    def _take_ahead(self, start: Callable[[list[dict[str, Any]]], Future[Any]]) -> None:
        """Takes the next batch, or its error, if there is one."""
        before = self._taken
        try:
            made = self._take()
            self._waiting.append((self._coming or 0, made, start(made)))
        except StopIteration:
            return
        except Exception as error:
            if self._taken == before:
                raise  # nothing was taken
            self._waiting.append((self._coming or 0, [], error))
        self.waiting_numbers[:] = [number for number, _, _ in self._waiting]

    def _take(self) -> list[dict[str, Any]]:
        """Takes the results of all loaders for the next batch."""
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
            return self._take()
        self._taken += 1
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
        made[0]["batch_index"] = self._coming  # for random numbers of the batch
        return made
