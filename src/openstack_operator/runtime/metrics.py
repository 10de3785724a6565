"""Prometheus metrics of the runtime, one module so that names and labels are seen side by side."""

from __future__ import annotations

import functools
from typing import TypeVar

from prometheus_client import Counter, Gauge, Histogram

M = TypeVar("M", Counter, Gauge, Histogram)


@functools.cache
def one(metric: M, *labels: object) -> M:
    """The series of a metric with these labels, found once: the library makes strings of them and takes a lock each
    time. Not for series that are removed again."""
    return metric.labels(*labels)


REQUESTS = Counter("openstack_operator_api_requests_total", "Requests to the API server.", ["verb", "resource", "code"])
RECONCILES = Counter("openstack_operator_reconcile_total", "Reconciles by kind and result.", ["kind", "result"])
RECONCILE_SECONDS = Histogram("openstack_operator_reconcile_seconds", "Wall time of one reconcile.", ["kind"])
QUEUE_DEPTH = Gauge("openstack_operator_queue_depth", "Keys waiting for a worker.", ["kind"])
CACHED_OBJECTS = Gauge("openstack_operator_cached_objects", "Objects in the informer's cache.", ["resource"])
RELISTS = Counter("openstack_operator_relists_total", "LISTs made by informers, the first one included.", ["resource"])
CONDITION = Gauge(
    "openstack_operator_condition",
    "1 when the condition is True, 0 when it is not.",
    ["kind", "namespace", "name", "condition"],
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
