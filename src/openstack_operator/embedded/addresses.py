"""Names and address ranges of the embedded cluster: the one place that knows them.

Every range here is private to the machine. `network` keeps all of them off the machine's own interfaces, and `host`
refuses to start where one of them is used already.
"""

from __future__ import annotations

NODE_NAME = "node1"
# The bridge that carries the machine's own address in the cluster; Linux limits interface names to 15 characters.
NODE_BRIDGE = "osk0"
POD_BRIDGE = "oskpods0"

NODE_RANGE = "10.89.0.0/24"
NODE_ADDRESS = "10.89.0.1"
POD_RANGE = "10.244.0.0/16"
NODE_POD_RANGE = "10.244.1.0/24"
SERVICE_RANGE = "10.96.0.0/16"
# The first of the range is the apiserver's own Service, by Kubernetes' rule.
SERVICE_OF_APISERVER = "10.96.0.1"
DNS_ADDRESS = "10.96.0.10"
FLOATING_RANGE = "172.24.4.0/24"
CLUSTER_DOMAIN = "cluster.local"

RANGES = (NODE_RANGE, POD_RANGE, SERVICE_RANGE, FLOATING_RANGE)

# Interfaces that OVN and OVS make on the node, outside of any pod; they stay when the pods go.
OVN_INTERFACES = ("br-ex", "br-int", "ovs-netdev")
OVN_NAMESPACE_PREFIX = "ovnmeta-"

# Top-level control groups: of pods, and of guests, which outlive the pod that started them.
POD_CGROUP = "openstack-operator"
GUEST_CGROUP = "openstack-guests"

API_PORT = 6443
ETCD_PORT = 12379
ETCD_PEER_PORT = 12380

# Who listens where: checked before anything starts.
PORTS: dict[str, tuple[tuple[str, int], ...]] = {
    "etcd": (("127.0.0.1", ETCD_PORT), ("127.0.0.1", ETCD_PEER_PORT)),
    "kube-apiserver": ((NODE_ADDRESS, API_PORT),),
    "kube-controller-manager": (("127.0.0.1", 10257),),
    "kube-scheduler": (("127.0.0.1", 10259),),
    "kubelet": ((NODE_ADDRESS, 10250), ("127.0.0.1", 10248)),
    "kube-proxy": (("127.0.0.1", 10249), ("127.0.0.1", 10256)),
}
