"""Prometheus metrics of the runtime, one module so that names and labels are seen side by side."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Counter, Gauge, Histogram

MOST_CONDITIONS = 10_000
"""Each condition of each object is a series of its own: so many of them a Prometheus takes without a thought."""

REQUESTS = Counter("openstack_operator_api_requests_total", "Requests to the API server.", ["verb", "resource", "code"])
RECONCILES = Counter("openstack_operator_reconcile_total", "Reconciles by kind and result.", ["kind", "result"])
RECONCILE_SECONDS = Histogram("openstack_operator_reconcile_seconds", "Wall time of one reconcile.", ["kind"])
QUEUE_DEPTH = Gauge("openstack_operator_queue_depth", "Keys waiting for a worker.", ["kind"])
RETRIES_PENDING = Gauge("openstack_operator_queue_delayed", "Keys that are looked at again later.", ["kind"])
CACHED_OBJECTS = Gauge("openstack_operator_cached_objects", "Objects in the informer's cache.", ["resource"])
RELISTS = Counter("openstack_operator_relists_total", "LISTs made by informers, the first one included.", ["resource"])
WATCH_RESTARTS = Counter(
    "openstack_operator_watch_restarts_total",
    "Watches opened anew: the old one was ended (by the server, as every few minutes), silent (as on a quiet cluster), "
    "refused, or the server was unreachable.",
    ["resource", "reason"],
)
LAST_CONTACT = Gauge(
    "openstack_operator_api_last_contact_timestamp_seconds", "Unix time of the API server's last answer; 0: none yet."
)
CONDITION = Gauge(
    "openstack_operator_condition",
    "1 when the condition is True, 0 when it is not.",
    ["kind", "namespace", "name", "condition"],
)
CONDITIONS_LEFT_OUT = Gauge(
    "openstack_operator_conditions_left_out", "Conditions that are not shown, because there are too many of them."
)
WAITING = Gauge(
    "openstack_operator_waiting",
    "Conditions of objects of a kind that wait for something of another kind now.",
    ["kind", "on"],
)
WAIT_SECONDS = Histogram(
    "openstack_operator_wait_seconds",
    "How long conditions of a kind waited for another kind, counted when the wait ends.",
    ["kind", "on"],
    buckets=(0.5, 1, 2, 5, 10, 20, 40, 60, 120, 300, 900, 3600),
)
REPAIRS = Counter(
    "openstack_operator_child_repairs_total",
    "Children applied again although nothing we want had changed (drift repaired).",
    ["kind", "resource"],
)
LEADER = Gauge("openstack_operator_leader", "1 while this replica holds the Lease.")
ADMISSIONS = Counter("openstack_operator_admissions_total", "Objects judged at admission.", ["kind", "result"])
ADMISSION_SECONDS = Histogram(
    "openstack_operator_admission_seconds",
    "Wall time of one judgement at admission.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 3),
)
CERTIFICATE_EXPIRY = Gauge(
    "openstack_operator_webhook_certificate_expiry_seconds", "Unix time at which the certificate that is served ends."
)


class Conditions:
    """The conditions of all objects as a metric: each a series, so that there is a limit to them."""

    def __init__(self, most: int = MOST_CONDITIONS) -> None:
        self._most = most
        # Of each object, the conditions that are shown and those for which there was no room.
        self._known: dict[tuple[str, tuple[str | None, str]], tuple[set[str], set[str]]] = {}
        self._shown = 0

    def show(self, kind: str, key: tuple[str | None, str], states: Mapping[str, bool]) -> None:
        """Sets the conditions of an object, by namespace and name; those that it has no longer go. No states: the
        object is gone."""
        before, left_before = self._known.pop((kind, key), (set(), set()))
        for name in before - states.keys():
            CONDITION.remove(kind, key[0], key[1], name)
        shown = before & states.keys()
        self._shown += len(shown) - len(before)
        for name in states:
            if name not in shown and self._shown < self._most:
                shown.add(name)
                self._shown += 1
        for name in shown:
            CONDITION.labels(kind, key[0], key[1], name).set(states[name])
        left = states.keys() - shown
        CONDITIONS_LEFT_OUT.inc(len(left) - len(left_before))
        if states:
            self._known[kind, key] = (shown, left)


CONDITIONS = Conditions()
