"""The lines of a long answer, bounded in length, and a reader that another thread can wake."""

from __future__ import annotations

from collections.abc import Iterator

from driver.errors import ApiError
from driver.kube.connection import Answer
from driver.kube.transport import Request, errors_mapped


class LineStream:
    """The lines of a watch, as they come. Another thread may ``stop`` it; the reader then sees the end of the stream."""

    def __init__(self, request: Request, response: Answer, *, max_line_bytes: int) -> None:
        self._request = request
        self._response = response
        self._max_line_bytes = max_line_bytes

    def lines(self) -> Iterator[bytes]:
        """Whole lines; half a line at the end of a broken stream is dropped. Raises ``ApiUnreachable``."""
        pending = bytearray()
        while chunk := self._read_some():
            pending += chunk
            if b"\n" not in chunk:
                self._check_length(pending)
                continue
            *whole, rest = bytes(pending).split(b"\n")
            pending = bytearray(rest)
            self._check_length(pending)
            yield from (line for line in whole if line.strip())

    def stop(self) -> None:
        """Wake the reader. May be called at any time, by any thread, more than once."""
        try:
            self._response.shutdown()
        except (ValueError, RuntimeError, OSError):
            return  # ended already

    def close(self) -> None:
        """Give up the connection; for the reader's own thread."""
        self._response.close()

    def _read_some(self) -> bytes:
        with errors_mapped(self._request, self._response.place):
            return self._response.read1(64 * 1024)

    def _check_length(self, pending: bytearray) -> None:
        if len(pending) > self._max_line_bytes:
            raise ApiError(str(self._request), 200, f"a line of the watch is longer than {self._max_line_bytes} bytes")
