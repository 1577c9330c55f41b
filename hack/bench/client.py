"""A process that calls as the kubelet does: one connection a socket, times taken where the answer arrives.

It reads orders from its input and writes outcomes to its output, a line each (``calls``). A process of its own, so that nothing
else that the benchmark does shares its interpreter lock; several of them, when callers are many.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping

import grpc
import msgspec

from driver.pb.dra.v1 import api_pb2 as v1
from driver.pb.dra.v1 import api_pb2_grpc as v1_grpc
from hack.bench.calls import Order, Outcome, Step, Took

CALL_TIMEOUT_S = 45.0


class Caller:
    """Stubs by socket, shared by the threads of this process as goroutines share the kubelet's connection."""

    def __init__(self) -> None:
        self._stubs: dict[str, v1_grpc.DRAPluginStub] = {}

    def connect(self, order: Order) -> None:
        """Have a connection to every socket of the order before a clock runs."""
        for step in (step for steps in order.callers for step in steps):
            if step.socket not in self._stubs:
                channel = grpc.insecure_channel(f"unix:{step.socket}", options=(("grpc.use_local_subchannel_pool", 1),))
                grpc.channel_ready_future(channel).result(timeout=10)
                self._stubs[step.socket] = v1_grpc.DRAPluginStub(channel)

    def call(self, step: Step) -> Took:
        """Make one call and take its time."""
        stub = self._stubs[step.socket]
        claims = [v1.Claim(namespace=namespace, name=name, uid=uid) for namespace, name, uid in step.claims]
        answered: Mapping[str, v1.NodePrepareResourceResponse | v1.NodeUnprepareResourceResponse]
        started = time.perf_counter()
        try:
            if step.method == "prepare":
                answered = stub.NodePrepareResources(
                    v1.NodePrepareResourcesRequest(claims=claims), timeout=CALL_TIMEOUT_S
                ).claims
            else:
                request = v1.NodeUnprepareResourcesRequest(claims=claims)
                answered = stub.NodeUnprepareResources(request, timeout=CALL_TIMEOUT_S).claims
        except grpc.RpcError as err:
            return Took(ms=(time.perf_counter() - started) * 1000, ended_at=time.monotonic(), error=str(err))
        ms = (time.perf_counter() - started) * 1000
        error = next((entry.error for entry in answered.values() if entry.error), "")
        if not error and len(answered) != len(claims):
            error = f"{len(answered)} answers for {len(claims)} claims"
        return Took(ms=ms, ended_at=time.monotonic(), error=error)


def carry_out(caller: Caller, order: Order) -> Outcome:
    """All callers of the order side by side."""
    caller.connect(order)
    outcomes: list[tuple[Took, ...]] = [()] * len(order.callers)

    def work(number: int) -> None:
        time.sleep(max(0.0, order.at - time.monotonic()))
        outcomes[number] = tuple(caller.call(step) for step in order.callers[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, len(order.callers))]
    for thread in threads:
        thread.start()
    work(0)
    for thread in threads:
        thread.join()
    return Outcome(callers=tuple(outcomes))


def main() -> None:
    """Serve orders until the input ends."""
    caller = Caller()
    decoder = msgspec.json.Decoder(Order)
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(msgspec.json.encode(carry_out(caller, decoder.decode(line))) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
