"""Structured logs: ``configure`` is called once by the command line, ``get`` gives a logger anywhere else.

Data goes into keys, not into the message (STYLE V2). Format ``json`` is for clusters, ``human`` for terminals.
"""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog


def configure(level: str = "info", form: Literal["json", "human"] = "json") -> None:
    """Sends every log line, the standard library's included, to standard error in one format."""
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


def get(name: str) -> structlog.typing.FilteringBoundLogger:
    """A logger whose lines carry ``component=name``."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(component=name)
    return logger
