"""Structured logs: ``configure`` is called once by the command line, ``get`` gives a logger anywhere else.

Data goes into keys, not into the message (STYLE V2). Format ``json`` is for clusters, ``human`` for terminals.

structlog is loaded with the first line: together with rich, which it takes where it finds it, it costs 60 ms, and
commands that answer questions write no line.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

if TYPE_CHECKING:
    import structlog

    Logger: TypeAlias = structlog.typing.FilteringBoundLogger


def configure(level: str = "info", form: Literal["json", "human"] = "json") -> None:
    """Sends every log line, the standard library's included, to standard error in one format."""
    import structlog

    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    final: list[structlog.typing.Processor]
    if form == "json":
        final = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        # The default formatter of exceptions prints local variables, passwords among them.
        plain = structlog.dev.plain_traceback
        final = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    structlog.configure(
        processors=[*shared, *final],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    # Libraries (aiohttp, asyncio) speak up when something is wrong; their chatter is nobody's business.
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


class _Deferred:
    """A logger with values bound to it, which is made when it is written to."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def bind(self, **values: Any) -> _Deferred:
        return _Deferred(self._values | values)

    def __getattr__(self, name: str) -> Any:
        import structlog

        return getattr(structlog.get_logger(**self._values), name)


def get(name: str) -> Logger:
    """A logger whose lines carry ``component=name``."""
    return cast("Logger", _Deferred({"component": name}))
