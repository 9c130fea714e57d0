"""Schedulers: who is next when more could run than there is room for. Both are in memory, and no log depends on them."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Mapping

from loom.core.errors import InvalidDeclaration
from loom.spi.scheduler import Job


class PriorityScheduler:
    """Gives up to *limit* jobs a place at once: the smallest priority first, among equals who came first."""

    def __init__(self, limit: int) -> None:
        self._limit = _positive("limit", limit)
        self._heap: list[tuple[int, int, Job]] = []
        self._count = itertools.count()
        self._waiting: set[str] = set()
        self._running: set[str] = set()

    def add(self, job: Job) -> None:
        if job.id not in self._waiting and job.id not in self._running:
            self._waiting.add(job.id)
            heapq.heappush(self._heap, (job.priority, next(self._count), job))

    def take(self) -> Job | None:
        if len(self._running) >= self._limit:
            return None
        while self._heap:
            job = heapq.heappop(self._heap)[2]
            if job.id in self._waiting:
                self._waiting.discard(job.id)
                self._running.add(job.id)
                return job
        return None

    def done(self, id: str) -> None:
        self._running.discard(id)

    def cancel(self, id: str) -> bool:
        if id not in self._waiting:
            return False
        self._waiting.discard(id)
        self._heap = [each for each in self._heap if each[2].id != id]
        heapq.heapify(self._heap)
        return True

    def waiting(self) -> int:
        return len(self._waiting)


class FairScheduler:
    """Gives up to *limit* jobs a place at once, in turn over their keys.

    A key of weight 3 gets three places where one of weight 1, which is what a key has unless *weights* says otherwise, gets
    one. Within a key who came first is first. With *limit_each* no key has more places than that at a time, however long
    its jobs take.
    """

    def __init__(self, limit: int, *, weights: Mapping[str, int] | None = None, limit_each: int | None = None) -> None:
        self._limit = _positive("limit", limit)
        self._limit_each = limit if limit_each is None else _positive("limit_each", limit_each)
        self._weights = {key: _positive(f"the weight of {key!r}", weight) for key, weight in (weights or {}).items()}
        self._queues: dict[str, deque[Job]] = {}
        self._turn: dict[str, float] = {}  # how much each waiting key has had, in units of what its weight gives it
        self._had = 0.0
        self._waiting: dict[str, str] = {}
        self._running: dict[str, str] = {}
        self._places: Counter[str] = Counter()

    def add(self, job: Job) -> None:
        if job.id in self._waiting or job.id in self._running:
            return
        if job.key not in self._queues:
            self._queues[job.key] = deque()
            # Who was away has saved nothing up, and who comes back at once is not first again.
            self._turn[job.key] = max(self._turn.get(job.key, 0.0), self._had)
        self._queues[job.key].append(job)
        self._waiting[job.id] = job.key

    def take(self) -> Job | None:
        may = [key for key in self._queues if self._places[key] < self._limit_each]
        if not may or len(self._running) >= self._limit:
            return None
        key = min(may, key=self._turn.__getitem__)  # among equals who has waited longest
        job = self._queues[key].popleft()
        self._had = self._turn[key]
        self._turn[key] += 1 / self._weights.get(key, 1)
        del self._waiting[job.id]
        self._running[job.id] = key
        self._places[key] += 1
        self._drop_if_empty(key)
        return job

    def done(self, id: str) -> None:
        key = self._running.pop(id, None)
        if key is not None:
            self._places[key] -= 1
            if not self._places[key]:
                del self._places[key]

    def cancel(self, id: str) -> bool:
        key = self._waiting.pop(id, None)
        if key is None:
            return False
        self._queues[key] = deque(job for job in self._queues[key] if job.id != id)
        self._drop_if_empty(key)
        return True

    def waiting(self) -> int:
        return len(self._waiting)

    def _drop_if_empty(self, key: str) -> None:
        if self._queues[key]:
            return
        del self._queues[key]
        for known in [each for each in self._turn if each not in self._queues and self._turn[each] <= self._had]:
            del self._turn[known]  # it would begin here anyway


def _positive(what: str, number: int) -> int:
    if number < 1:
        raise InvalidDeclaration(f"{what} is {number}: a whole number from 1 on")
    return number
