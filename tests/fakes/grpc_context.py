"""A gRPC server's side of a call, without a server: what our servicers use of ``grpc.ServicerContext``, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, cast

import grpc


class Aborted(Exception):
    """The call was ended with a status."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{code.name}: {details}")
        self.code = code
        self.details = details


class FakeContext:
    """A call whose caller waits ``remaining_s`` (None: without end). ``cancel`` is the caller going away."""

    def __init__(self, *, remaining_s: float | None = 45.0, is_active: bool = True) -> None:
        self._remaining_s = remaining_s
        self._is_active = is_active
        self._callbacks: list[Callable[[], None]] = []

    def as_grpc(self) -> grpc.ServicerContext:
        """For a signature that wants gRPC's own type."""
        return cast(grpc.ServicerContext, self)

    def time_remaining(self) -> float | None:
        """GRPC's Python server answers with some 290 years where the caller set no deadline."""
        return 9.223372035058615e18 if self._remaining_s is None else self._remaining_s

    def is_active(self) -> bool:
        """False once the call is over."""
        return self._is_active

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """False, and not kept, when the call is over already."""
        if self._is_active:
            self._callbacks.append(callback)
        return self._is_active

    def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        """End the call; gRPC raises here too."""
        raise Aborted(code, details)

    def cancel(self) -> None:
        """The caller goes away."""
        self._is_active = False
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
