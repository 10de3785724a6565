"""Puts what a later release of a package has mended into the pinned one. usage: backports.py SITE_PACKAGES

Each is a text of the pinned release and the one for it. A package that has the later text, or is not there, stays as it
is; one that has neither ends the build: somebody has to look at it.
"""

import dataclasses
import pathlib
import sys


@dataclasses.dataclass(frozen=True)
class Backport:
    path: str
    old: str
    new: str
    later: str
    """What a release has that needs nothing any more."""


# oslo.messaging 14.9 to 18.0 look for the reply of a call twice a second, so that every call takes half a second; a
# server that boots waits for a dozen. A thread of eventlet cannot be woken by the one that reads replies (Launchpad bug
# 2035113), a real one can. 18.3 waits for the reply itself.
BACKPORTS = (
    Backport(
        path="oslo_messaging/_drivers/amqpdriver.py",
        old="""\
                return self._queues[msg_id].get(block=False)
            except queue.Empty:
                time.sleep(0.5)
""",
        new="""\
                if eventletutils.is_monkey_patched('thread'):
                    return self._queues[msg_id].get(block=False)
                left = watch.leftover(return_none=True)
                return self._queues[msg_id].get(timeout=left)
            except queue.Empty:
                time.sleep(0.02)
""",
        later="return self._queues[msg_id].get(block=True, timeout=timeout)",
    ),
)


def main(root: pathlib.Path) -> None:
    for one in BACKPORTS:
        file = root / one.path
        if not file.exists():
            continue
        text = file.read_text()
        if one.later in text:
            continue
        if text.count(one.old) != 1:
            sys.exit(f"{file}: has neither the text in backports.py nor the later one: look at what is new in it")
        file.write_text(text.replace(one.old, one.new))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
