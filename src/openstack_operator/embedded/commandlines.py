"""The command lines of the control plane's programs, as pure functions.

Called by `apiserver` (a control plane for tests, on loopback) and by `node` (the embedded cluster). The programs of the
node itself read configuration files: those are in `configuration`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

# Every request's metadata once, when it is answered: enough to count requests and to see who wrote what.
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: [system:kube-scheduler, system:kube-controller-manager, system:kube-proxy]
- level: None
  userGroups: [system:nodes]
- level: None
  nonResourceURLs: ["/readyz*", "/livez*", "/healthz*"]
- level: Metadata
"""


@dataclass(frozen=True)
class Cluster:
    """What the programs must agree on."""

    programs: Path
    pki: Path
    etcd_data: Path
    etcd_port: int
    etcd_peer_port: int
    address: str
    port: int
    services: str
    audit_policy: Path
    audit_log: Path
    pods: str = ""
    domain: str = "cluster.local"
    # Controllers of other programs may be absent in a test: then what depends on them is switched off by name.
    disabled_admission: tuple[str, ...] = ()
    extra_apiserver: tuple[str, ...] = field(default=())

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port}"


def etcd(cluster: Cluster) -> list[str]:
    client = f"http://127.0.0.1:{cluster.etcd_port}"
    peer = f"http://127.0.0.1:{cluster.etcd_peer_port}"
    return [
        str(cluster.programs / "etcd"),
        "--name=embedded",
        f"--data-dir={cluster.etcd_data}",
        # One member on one machine: fsync protects from the loss of power only. On a busy disk it costs 100 ms a write.
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=embedded={peer}",
        "--log-level=warn",
    ]


def kube_apiserver(cluster: Cluster) -> list[str]:
    pki = cluster.pki
    issuer = f"https://kubernetes.default.svc.{cluster.domain}"
    return [
        str(cluster.programs / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{cluster.etcd_port}",
        f"--bind-address={cluster.address}",
        f"--advertise-address={cluster.address}",
        f"--secure-port={cluster.port}",
        f"--service-cluster-ip-range={cluster.services}",
        "--allow-privileged=true",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--disable-admission-plugins={','.join(cluster.disabled_admission)}",
        # Webhooks of Services are called at their endpoints: the machine need not reach the Service range for it.
        "--enable-aggregator-routing=true",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-issuer={issuer}",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki}/front-proxy.crt",
        f"--proxy-client-key-file={pki}/front-proxy.key",
        "--profiling=false",
        f"--audit-policy-file={cluster.audit_policy}",
        f"--audit-log-path={cluster.audit_log}",
        "--audit-log-maxsize=100",
        "--audit-log-maxbackup=2",
        *cluster.extra_apiserver,
    ]


def kube_controller_manager(cluster: Cluster, secure_port: int = 10257) -> list[str]:
    pki, kubeconfig = cluster.pki, f"{cluster.pki}/kube-controller-manager.kubeconfig"
    return [
        str(cluster.programs / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={secure_port}",
        "--leader-elect=false",
        f"--root-ca-file={pki}/ca.crt",
        f"--service-account-private-key-file={pki}/sa.key",
        "--use-service-account-credentials=true",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        # A rollout creates hundreds of objects at once; the defaults (20 and 30) are for clusters of strangers.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--profiling=false",
    ]


def kube_scheduler(cluster: Cluster) -> list[str]:
    kubeconfig = f"{cluster.pki}/kube-scheduler.kubeconfig"
    return [
        str(cluster.programs / "kube-scheduler"),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--profiling=false",
    ]
