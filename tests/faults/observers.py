"""What goes on beside a fault: echoes to a VM, a steady client of every API, and somebody who reads `status`.

Each is a thread that notes what it sees with the time (`time.monotonic`); `scene` asks them afterwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import guests
import requests

ECHO_SECONDS = 0.1
ANSWER_SECONDS = 2.0
REQUEST_SECONDS = 0.25
TIMEOUT_SECONDS = 10
# Between two who ask for `status`: each costs half a second of a processor.
STATUS_SECONDS = 2.0
# A line of `status --watch` where it is no terminal: the time, what somebody has to do, and the object with its words.
TOLD = re.compile(r"\d\d:\d\d:\d\d (?:Ready: .*|(?P<kind>Needs you:|Waits for(?: the end of)?) (?P<what>.*))")
SOURCE = Path(__file__).parents[2] / "src"

# A question to each service that its database must be asked for; the token's own is a login.
QUESTIONS = {
    "identity": "/v3/users?limit=1",
    "image": "/v2/images?limit=1",
    "placement": "/resource_providers?name=nobody",
    "network": "/v2.0/networks?limit=1",
    "compute": "/servers?limit=1",
}


class Observer(threading.Thread):
    """A thread with an end; what it raises is raised again by `end`."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._over = threading.Event()
        self._problem: Exception | None = None

    def run(self) -> None:
        try:
            self.observe()
        except Exception as problem:  # noqa: BLE001 - raised by `end`, in the thread of the test
            self._problem = problem

    def observe(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        self._over.set()
        self.join(timeout=60)
        if self._problem is not None:
            raise self._problem


class Echoes(Observer):
    """Ten ICMP echo requests a second to an address."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address
        self._sent: list[tuple[float, int]] = []
        self._answered: dict[int, float] = {}

    def observe(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as link:
            link.setblocking(False)
            number, due = 0, time.monotonic()
            while not self._over.is_set():
                request = guests.echo_request(number & 0xFFFF)
                # The way may be gone with what is broken: that is a lost echo as any other.
                with contextlib.suppress(OSError):
                    link.sendto(request, (self._address, 0))
                self._sent.append((time.monotonic(), number))
                number, due = number + 1, due + ECHO_SECONDS
                while (left := due - time.monotonic()) > 0:
                    self._receive(link, left)
                # Who was held up does not catch up in a burst.
                due = max(due, time.monotonic())

    def _receive(self, link: socket.socket, seconds: float) -> None:
        link.settimeout(seconds)
        with contextlib.suppress(TimeoutError, BlockingIOError):
            packet, (sender, _) = link.recvfrom(1500)
            # Its process and its number, behind 20 bytes of IP.
            if sender == self._address and packet[20] == 0 and packet[24:26] == (os.getpid() & 0xFFFF).to_bytes(2):
                low = int.from_bytes(packet[26:28])
                latest = self._sent[-1][1]
                number = (latest & ~0xFFFF) | low
                self._answered[number if number <= latest else number - 0x10000] = time.monotonic()

    def lost(self, since: float, until: float) -> int:
        """How many echoes that were sent in this time got no answer."""
        return sum(number not in self._answered for at, number in list(self._sent) if since <= at < until)

    def silence(self, since: float, until: float) -> float:
        """Seconds from the first to the last lost echo of the longest run of lost ones, one interval included."""
        longest, begin = 0.0, None
        for at, number in list(self._sent):
            if not since <= at < until:
                continue
            if number in self._answered:
                begin = None
            else:
                begin = at if begin is None else begin
                longest = max(longest, at - begin + ECHO_SECONDS)
        return round(longest, 1)

    def answers_now(self) -> bool:
        """Whether the last second's echoes were answered."""
        now = time.monotonic()
        return bool(self._sent) and any(now - at < 1 for at in list(self._answered.values())[-5:])


@dataclass(frozen=True)
class Login:
    """A session of a user: the token, and where each service is."""

    token: str
    urls: dict[str, str]


@dataclass
class Answer:
    at: float
    problem: str
    """Empty for a good one."""


class Api(Observer):
    """Four requests a second to one service, one after the other. A token that is refused is a failed request, and the
    user logs in again; so it is where nobody listens at the URL, since the catalogue may have another."""

    def __init__(self, service: str, log_in: Callable[[], Login]) -> None:
        super().__init__()
        self.service, self._log_in = service, log_in
        self.answers: list[Answer] = []

    def observe(self) -> None:
        login: Login | None = None
        with requests.Session() as session:
            while not self._over.wait(REQUEST_SECONDS):
                began = time.monotonic()
                login, problem = self._ask(session, login)
                self.answers.append(Answer(began, problem))

    def _ask(self, session: requests.Session, login: Login | None) -> tuple[Login | None, str]:
        try:
            login = login or self._log_in()
            url = login.urls[self.service].rstrip("/") + QUESTIONS[self.service]
            headers = {"X-Auth-Token": login.token}
            answer = session.get(url, headers=headers, timeout=TIMEOUT_SECONDS)
        except (requests.RequestException, LoginError) as problem:
            return None, type(problem).__name__ if not isinstance(problem, LoginError) else f"login: {problem}"
        if answer.status_code >= 300:
            return (None if answer.status_code == 401 else login), str(answer.status_code)
        return login, ""

    def failed(self, since: float, until: float) -> list[str]:
        return [one.problem for one in list(self.answers) if since <= one.at < until and one.problem]

    def answers_since(self, at: float, count: int) -> bool:
        """Whether the latest `count` requests, all of them made after `at`, were good."""
        last = list(self.answers)[-count:]
        return len(last) == count and all(one.at >= at and not one.problem for one in last)


class LoginError(Exception):
    """Nobody could log in; the message says why in a word."""


@dataclass
class Apis:
    """The steady clients of all services."""

    log_in: Callable[[], Login]
    each: list[Api] = field(default_factory=list)

    def start(self) -> None:
        self.each = [Api(service, self.log_in) for service in QUESTIONS]
        for one in self.each:
            one.start()

    def end(self) -> None:
        for one in self.each:
            one.end()

    def failed(self, since: float, until: float) -> dict[str, list[str]]:
        """What went wrong in this time, by service; services without failures are not there."""
        found = {one.service: one.failed(since, until) for one in self.each}
        return {service: problems for service, problems in found.items() if problems}

    def all_answer_since(self, at: float, count: int = 3) -> bool:
        return all(one.answers_since(at, count) for one in self.each)


class Blame(Observer):
    """Two who read `openstack-operator status`: one has `status --watch` open, and one asks again and again, who is
    told also where there is no API server any more. What is over before the second one asks, the first one sees."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        super().__init__()
        self._command = [sys.executable, "-m", "openstack_operator", "status"]
        self._command += ["--kubeconfig", str(kubeconfig), "--namespace", namespace]
        self._environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1"}
        self.said: list[tuple[float, list[str]]] = []
        """When it was told, and what is waited for; nothing where all is Ready."""

    def observe(self) -> None:
        with contextlib.ExitStack() as open_watches:
            watch: subprocess.Popen[str] | None = None
            while not self._over.wait(STATUS_SECONDS):
                if watch is None or watch.poll() is not None:
                    # It ends where the API server does not answer at its start.
                    watch = open_watches.enter_context(self._watching())
                done = subprocess.run(
                    [*self._command, "-o", "json"], check=False, capture_output=True, text=True, timeout=60,
                    env=self._environment,
                )  # fmt: skip
                # Nobody is told before the command has ended.
                self.said.append((time.monotonic(), list(self._lines(done))))

    @contextlib.contextmanager
    def _watching(self) -> Iterator[subprocess.Popen[str]]:
        """`status --watch`, whose lines are noted as they come."""
        command = [*self._command, "--watch"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=self._environment
        ) as watch:
            reader = threading.Thread(target=self._note, args=(watch,), daemon=True)
            reader.start()
            yield watch
            watch.terminate()
            reader.join(timeout=60)

    def _note(self, watch: subprocess.Popen[str]) -> None:
        assert watch.stdout is not None
        for line in watch.stdout:
            if found := TOLD.match(line):
                self.said.append((time.monotonic(), [found["what"]] if found["kind"] else []))

    def _lines(self, done: subprocess.CompletedProcess[str]) -> Iterator[str]:
        if not done.stdout.startswith("{"):
            # No API server: its own words name it.
            yield (done.stderr.strip().splitlines() or ["status says nothing"])[-1]
            return
        for one in json.loads(done.stdout)["waitsFor"]:
            yield f"{one['kind']} {one['namespace']}/{one['name']}: {one['message'] or one['state']}"

    def first(self, pattern: str, since: float) -> tuple[float, str] | None:
        """When it first named what the pattern is for, from `since` on; with the line."""
        found = [
            (at, line) for at, lines in list(self.said) if at >= since for line in lines if re.search(pattern, line)
        ]
        return min(found, default=None)
