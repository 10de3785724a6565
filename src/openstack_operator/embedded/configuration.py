"""The configuration files of the node's programs, as pure functions of paths and facts about the machine.

Called by `node`, which writes them. Kubelet and kube-proxy read JSON as well as YAML. What the control plane is
started with is in `commandlines`; what runs in pods from the first minute is in `manifests/`.
"""

from __future__ import annotations

import json
from pathlib import Path
from string import Template

from openstack_operator.embedded import addresses

MANIFESTS = Path(__file__).parent / "manifests"

# Never pulled: `images` puts it into containerd.
PAUSE_IMAGE = "localhost/pause:1"

# Also the name of files that the CNI library leaves: see `leftovers`.
CNI_NETWORK = "openstack-operator"


def containerd(*, programs: Path, state: Path, run: Path, cni: Path, may_raise_priority: bool) -> str:
    """containerd 2.x. `may_raise_priority`: whether we hold CAP_SYS_RESOURCE.

    Without that capability (small virtual machines, nested containers) no pod starts unless containerd leaves the
    kernel's out-of-memory score alone: "can't get final child's PID from pipe: EOF".
    """
    disabled = (
        "io.containerd.internal.v1.opt",
        "io.containerd.nri.v1.nri",
        "io.containerd.snapshotter.v1.blockfile",
        "io.containerd.snapshotter.v1.native",
        "io.containerd.snapshotter.v1.erofs",
        "io.containerd.differ.v1.erofs",
        "io.containerd.tracing.processor.v1.otlp",
        "io.containerd.internal.v1.tracing",
    )
    return f"""\
version = 3
root = "{state}/containerd"
state = "{run}/containerd"
disabled_plugins = {json.dumps(disabled)}

[grpc]
  address = "{run}/containerd.sock"

[plugins."io.containerd.metadata.v1.bolt"]
  # As with etcd: fsync protects from the loss of power only, and each container costs a dozen of them.
  no_sync = true

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = {json.dumps(not may_raise_priority)}
  netns_mounts_under_state_dir = true
  # By default it reads the CPU time of every container each second, a request to each shim. The kubelet counts itself.
  stats_collect_period = "10m"
  # A profile loaded into the kernel would stay there when the cluster is gone.
  disable_apparmor = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{programs}/cni"]
    conf_dir = "{cni}"
    # One program less to start for each pod.
    use_internal_loopback = true
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = "{run}/runc"
"""


def cni(state: Path) -> str:
    """Pods on a bridge. `isDefaultGateway` excludes an explicit default route, hence `isGateway` and routes."""
    bridge = {
        "type": "bridge",
        "bridge": addresses.POD_BRIDGE,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": f"{state}/ipam",
            "ranges": [[{"subnet": addresses.NODE_POD_RANGE}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    ports = {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": CNI_NETWORK, "plugins": [bridge, ports]}, indent=1)


def kubelet(*, pki: Path, state: Path, run: Path) -> str:
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": addresses.NODE_ADDRESS,
            "healthzBindAddress": "127.0.0.1",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{pki}/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{pki}/node-{addresses.NODE_NAME}.crt",
            "tlsPrivateKeyFile": f"{pki}/node-{addresses.NODE_NAME}.key",
            "containerRuntimeEndpoint": f"unix://{run}/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{addresses.POD_CGROUP}",
            "failCgroupV1": False,
            "failSwapOn": False,
            # Chains for kube-proxy in its iptables mode; they would stay behind.
            "makeIPTablesUtilChains": False,
            "enforceNodeAllocatable": [],
            "oomScoreAdj": 0,
            "clusterDNS": [addresses.DNS_ADDRESS],
            "clusterDomain": addresses.CLUSTER_DOMAIN,
            # Empty: what the cluster does not know itself is asked of nobody.
            "resolvConf": f"{state}/resolv.conf",
            "podLogsDir": f"{state}/pods-log",
            "volumePluginDir": f"{state}/volume-plugins",
            # Kubelet gives its watch of a ConfigMap or Secret one second to begin. On a busy machine that fails, and it
            # comes back later each time ("failed to sync configmap cache"): MariaDB once waited for eleven seconds.
            "configMapAndSecretChangeDetectionStrategy": "Get",
            "serializeImagePulls": False,
            # No registry gives them back.
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "nodefs.inodesFree": "1%",
                "imagefs.available": "1%",
            },
            "maxPods": 200,
            "nodeStatusUpdateFrequency": "4s",
            "registerWithTaints": [],
            "shutdownGracePeriod": "0s",
        },
        indent=1,
    )


def kube_proxy(pki: Path) -> str:
    return json.dumps(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clusterCIDR": addresses.POD_RANGE,
            "detectLocalMode": "ClusterCIDR",
            "hostnameOverride": addresses.NODE_NAME,
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            "oomScoreAdj": 0,
            "clientConnection": {"kubeconfig": f"{pki}/kube-proxy.kubeconfig"},
            # Zero: leave the machine's own connection tracking as it is.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            # With zero it is a second. Until the rules follow, connections go to a pod that has ended, and one that is
            # made when its address is gone waits for as long as its maker does.
            "nftables": {"minSyncPeriod": "100ms"},
            # Ports of nodes answer on the cluster's own bridge, not on the machine's interfaces.
            "nodePortAddresses": [addresses.NODE_RANGE],
        },
        indent=1,
    )


def manifests() -> str:
    """Cluster DNS, the policy agent, the default StorageClass and what nodes may read, for `kubectl apply`."""
    parts = [path.read_text() for path in sorted(MANIFESTS.glob("*.yaml"))]
    return Template("\n---\n".join(parts)).substitute(
        domain=addresses.CLUSTER_DOMAIN, dns_address=addresses.DNS_ADDRESS
    )
