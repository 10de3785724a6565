"""Prometheus metrics of the runtime, one module so that names and labels are seen side by side."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from typing import TypeVar

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

M = TypeVar("M", Counter, Gauge, Histogram)

MOST_CONDITIONS = 10_000
"""Each condition of each object is a series of its own: so many of them a Prometheus takes without a thought."""


@functools.cache
def one(metric: M, *labels: object) -> M:
    """The series of a metric with these labels, found once: the library makes strings of them and takes a lock each
    time. Not for series that are removed again."""
    return metric.labels(*labels)


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


class Conditions(Collector):
    """The conditions of all objects as a metric: each a series, so that there is a limit to them. The series are made
    when somebody asks: conditions change by the thousand in a rollout, and the library takes its time for a series."""

    def __init__(self, most: int = MOST_CONDITIONS) -> None:
        self._most = most
        self._states: dict[tuple[str, tuple[str | None, str]], Mapping[str, bool]] = {}

    def show(self, kind: str, key: tuple[str | None, str], states: Mapping[str, bool]) -> None:
        """Sets the conditions of an object, by namespace and name; those that it has no longer go. No states: the
        object is gone."""
        if states:
            self._states[kind, key] = states
        else:
            self._states.pop((kind, key), None)

    def collect(self) -> Iterator[Metric]:
        """Those of the objects that were there first, as far as there is room."""
        shown = GaugeMetricFamily(
            "openstack_operator_condition",
            "1 when the condition is True, 0 when it is not.",
            labels=["kind", "namespace", "name", "condition"],
        )
        every = (
            ((kind, namespace or "", name, condition), is_true)
            for (kind, (namespace, name)), states in list(self._states.items())
            for condition, is_true in states.items()
        )
        for labels, is_true in itertools.islice(every, self._most):
            shown.add_metric(labels, float(is_true))
        yield shown
        yield GaugeMetricFamily(
            "openstack_operator_conditions_left_out",
            "Conditions that are not shown, because there are too many of them.",
            value=sum(1 for _ in every),
        )


CONDITIONS = Conditions()
REGISTRY.register(CONDITIONS)
