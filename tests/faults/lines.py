"""Patterns of the lines in which `status` names what is broken, as `cli/status` prints them: kind, namespace and name
of one object, and what there is to say of it. A line about somebody else who speaks of it is none of them.
"""

from __future__ import annotations

# What Kubernetes puts behind the name of a workload in those of its pods: the number of a StatefulSet's pod; five
# characters that form no words; before these the hash of a Deployment's template, or that of a Job's inputs.
CHARACTER = "[bcdfghjklmnpqrstvwxz2456789]"
BEHIND = rf"(?:\d+|(?:(?:{CHARACTER}{{6,10}}|[0-9a-f]{{8}})-)?{CHARACTER}{{5}})"
# An object of ours whose condition ends at the one that blocks.
ABOVE = r"(?:[A-Z]\w+ \S+: \w+: )?"

NO_API = r"^error: no answer from the API server https://"
NO_STORE = r"^error: the API server https://\S+ is not ready: (?:\S+, )*etcd\b"
DNS = r"^Service kube-system/kube-dns: no pod "


def of(*workloads: str, namespace: str = r"[a-z0-9-]+", says: str = "") -> str:
    """A line about one of these workloads or a pod of it, with what it says."""
    names = "|".join(workloads)
    workload = rf"(?:StatefulSet|DaemonSet|Deployment|Job) {namespace}/(?:{names})(?:-[0-9a-f]{{8}})?"
    return rf"^{ABOVE}(?:{workload}|Pod {namespace}/(?:{names})-{BEHIND}): .*{says}"
