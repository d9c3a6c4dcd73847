"""A seeded plan of faults, and what carries it out: one worker at a time, and beside it one gateway or the store."""
import asyncio
import dataclasses
import math
import signal
import time

from processes import until

WORKER_FAULTS = ("kill", "drain", "stop", "cut", "slow")
STORE_FAULTS = ("kill", "stop", "restart")
GATEWAY_FAULTS = ("drain", "drain", "kill")
# On both sides of `timeouts.idle`: some streams stand still and go on, others go on elsewhere.
STOP_SECONDS = (2.0, 9.0)
SLOW_SECONDS = (3.0, 8.0)
STORE_AWAY_SECONDS = (2.0, 6.0)
# Between what has healed and the next fault.
PAUSE_SECONDS = (1.0, 4.0)
SHARED_PAUSE_SECONDS = (4.0, 10.0)
CUTS_MAX = 3
SEEN_SECONDS_MAX = 60
# `breaker.open_first` and its jitter: so long the gateways may leave a worker alone that is back.
BREAKER_SECONDS = 12


@dataclasses.dataclass
class Window:
    """From a fault until the gateways hold the worker for up, and its breaker has had time to close."""
    worker: object
    begun: float
    ended: float = math.inf


class Faults:
    """Two lanes of faults, each in the order of its seed; `windows` tells who was disturbed when."""

    def __init__(self, fleet, random, say):
        self.fleet, self.random, self.say = fleet, random, say
        self.windows, self.counts, self.end = [], {}, 0.0

    async def run(self, seconds):
        begun = time.monotonic()
        self.end = begun + seconds
        # The first gateway is left alone after a quarter, so that its memory can be judged.
        await asyncio.gather(self.workers(), self.shared(begun + seconds / 4))

    async def workers(self):
        plan = self.random(1)
        while time.monotonic() < self.end:
            worker, kind = plan.choice(self.fleet.workers), plan.choice(WORKER_FAULTS)
            if worker.proxy is None and kind in ("cut", "slow"):
                kind = "kill"
            await self.worker(worker, kind, plan)
            await asyncio.sleep(plan.uniform(*PAUSE_SECONDS))

    async def worker(self, worker, kind, plan):
        window = self.disturb(f"{kind} worker", worker)
        if kind == "kill":
            await self.again(worker, signal.SIGKILL)
        elif kind == "drain":
            await self.again(worker, signal.SIGTERM)
        elif kind == "stop":
            await self.stopped(worker, plan.uniform(*STOP_SECONDS))
        elif kind == "slow":
            worker.proxy.is_slow = True
            await asyncio.sleep(plan.uniform(*SLOW_SECONDS))
            worker.proxy.is_slow = False
        else:
            for _ in range(plan.randint(1, CUTS_MAX)):
                worker.proxy.cut()
                await asyncio.sleep(plan.uniform(0.2, 1.0))
        await self.seen(worker)
        window.ended = time.monotonic() + BREAKER_SECONDS

    async def shared(self, first_until):
        plan = self.random(2)
        while time.monotonic() < self.end:
            draw, kind, store_kind = plan.random(), plan.choice(GATEWAY_FAULTS), plan.choice(STORE_FAULTS)
            gateway = plan.choice(self.fleet.gateways)
            if time.monotonic() > first_until:
                gateway = self.fleet.gateways[-1]
            if draw < 0.5:
                await self.gateway(gateway, kind)
            else:
                await self.store(store_kind, plan)
            await asyncio.sleep(plan.uniform(*SHARED_PAUSE_SECONDS))

    async def gateway(self, gateway, kind):
        self.told(f"{kind} gateway", gateway)
        await self.again(gateway, signal.SIGKILL if kind == "kill" else signal.SIGTERM)

    async def store(self, kind, plan):
        redis = self.fleet.redis
        self.told(f"{kind} redis", redis)
        if kind == "stop":
            await self.stopped(redis, plan.uniform(*STORE_AWAY_SECONDS))
        else:
            await self.again(redis, signal.SIGKILL if kind == "kill" else signal.SIGTERM, plan.uniform(*STORE_AWAY_SECONDS))

    async def rolling(self):
        """Each worker, then each gateway, ends by SIGTERM and is started again before the next."""
        for worker in self.fleet.workers:
            await self.worker(worker, "drain", None)
        for gateway in self.fleet.gateways:
            await self.gateway(gateway, "drain")
            await until(self.all_open, "all gateways to be ready")

    async def all_open(self):
        return all(gateway.is_open for gateway in self.fleet.gateways)

    async def again(self, process, which, away=0.0):
        process.signal(which)
        code = await process.ended()
        if which == signal.SIGTERM and code != 0:
            self.say(f"{process.name} ended with {code}")
            self.fleet.codes.append((process.name, code))
        await asyncio.sleep(away)
        await process.start()

    async def stopped(self, process, seconds):
        process.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            process.signal(signal.SIGCONT)

    async def seen(self, worker):
        """Waits until every gateway that is ready holds the worker for up again."""
        async def is_up():
            found = [await gateway.is_up(worker) for gateway in self.fleet.gateways if gateway.is_open]
            return all(found)
        await until(is_up, f"the gateways to hold {worker.name} for up", SEEN_SECONDS_MAX)

    def told(self, what, process):
        self.counts[what] = self.counts.get(what, 0) + 1
        self.say(f"{what} {process.name}")

    def disturb(self, what, worker):
        self.told(what, worker)
        window = Window(worker, time.monotonic())
        self.windows.append(window)
        return window

    def spared(self, model, begun, ended):
        """Whether a worker of this model was disturbed at no time of a request."""
        disturbed = {one.worker for one in self.windows if one.begun < ended and begun < one.ended}
        return any(worker.model == model and worker not in disturbed for worker in self.fleet.workers)
