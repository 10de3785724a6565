"""How many files a server may have open, for start scripts of servers that take memory for as many as they may open.

Container runtimes allow between a thousand and a billion, as their own service happens to be configured. Erlang and
MariaDB make tables with an entry for each.
"""

from __future__ import annotations

MOST = 65536


def limit(most: int = MOST) -> str:
    """Lines of sh that lower the limit; one that is lower already stays."""
    return f"""\
files=$(ulimit -n)
if [ "$files" = unlimited ] || [ "$files" -gt {most} ]; then ulimit -n {most}; fi
"""
