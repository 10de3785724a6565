"""Reads the catalogues of options and policy rules from the releases' own packages and writes them into the tree.

`make catalogues` runs `python -m openstack_operator.cli.catalogues [RELEASE...]` as root; without names it does every
release that has a lock file. The venvs are those that the image builder makes, and stay in its cache.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from openstack_operator.embedded import paths
from openstack_operator.embedded.images import catalogues, layers

TARGET = Path(__file__).parents[1] / "kit" / "catalogues"


def main(arguments: Sequence[str] | None = None) -> None:
    locked = [file.stem for file in sorted(layers.recipe("locks").glob("*.txt"))]
    parser = argparse.ArgumentParser(prog="catalogues", description=__doc__)
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help=f"one of {', '.join(locked)}; all by default")
    parser.add_argument("--cache", type=Path, default=None, help="directory for what is built on the way")
    options = parser.parse_args(arguments)
    cache = options.cache or paths.default().cache
    for release in options.releases or locked:
        if release not in locked:
            parser.error(f"no lock file of {release}; there are {', '.join(locked)}")
        size = catalogues.write(catalogues.extract(cache, release, print), TARGET / release)
        print(f"catalogue {release}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
