"""Certificates and kubeconfigs of one cluster, made with the openssl command: no library, and EC keys take a moment.

Called by `apiserver` and `node`. Files that exist are kept, so that a second start changes nothing.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from openstack_operator.runtime import errors

# As long as an embedded cluster can live; nobody renews these.
DAYS = 3650


class PkiError(errors.OperatorError):
    """openssl refused; the message holds what it said."""


@dataclass(frozen=True)
class Authority:
    """A directory of keys and certificates and the cluster's address that kubeconfigs point at."""

    directory: Path
    server: str

    def make_cluster(self, alternative_names: Sequence[str]) -> None:
        """Everything the control plane reads: two authorities, the service account key, one certificate per component.

        `alternative_names` are the apiserver's, in openssl's form: "IP:127.0.0.1", "DNS:localhost".
        """
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.authority("ca")
        self.authority("front-proxy-ca")
        self.service_account_key()
        self.certificate("apiserver", "/CN=kube-apiserver", names=alternative_names)
        self.certificate("front-proxy", "/CN=front-proxy-client", signer="front-proxy-ca")
        self.certificate("kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client")
        self.certificate("admin", "/O=system:masters/CN=admin")
        for component in ("kube-controller-manager", "kube-scheduler", "kube-proxy"):
            self.certificate(component, f"/CN=system:{component}")
            self.kubeconfig(component)
        self.kubeconfig("admin")

    def make_node(self, name: str, address: str) -> None:
        """A kubelet's certificate, good for its server and its client side."""
        names = [f"DNS:{name}", f"IP:{address}", "IP:127.0.0.1"]
        self.certificate(f"node-{name}", f"/O=system:nodes/CN=system:node:{name}", names=names)
        self.kubeconfig(f"node-{name}")

    def path(self, name: str) -> Path:
        return self.directory / name

    def authority(self, name: str) -> None:
        if self.path(f"{name}.crt").exists():
            return
        self.key(name)
        openssl(
            *("req", "-x509", "-new", "-key", self.path(f"{name}.key"), "-subj", f"/CN={name}", "-days", DAYS),
            *("-addext", "basicConstraints=critical,CA:TRUE"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"),
            target=self.path(f"{name}.crt"),
        )

    def certificate(self, name: str, subject: str, *, signer: str = "ca", names: Sequence[str] = ()) -> None:
        """A key and a certificate for client and server use, signed by `signer`."""
        if self.path(f"{name}.crt").exists():
            return
        self.key(name)
        extensions = "keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n"
        if names:
            extensions += f"subjectAltName={','.join(names)}\n"
        request, settings = self.path(f"{name}.csr"), self.path(f"{name}.ext")
        settings.write_text(extensions)
        openssl("req", "-new", "-key", self.path(f"{name}.key"), "-subj", subject, target=request)
        openssl(
            *("x509", "-req", "-in", request, "-CA", self.path(f"{signer}.crt"), "-CAkey", self.path(f"{signer}.key")),
            # A random serial needs no state file beside the authority.
            *("-set_serial", f"0x{os.urandom(15).hex()}", "-days", DAYS, "-extfile", settings),
            target=self.path(f"{name}.crt"),
        )
        request.unlink()
        settings.unlink()

    def service_account_key(self) -> None:
        self.key("sa")
        if not self.path("sa.pub").exists():
            openssl("ec", "-in", self.path("sa.key"), "-pubout", target=self.path("sa.pub"))

    def key(self, name: str) -> None:
        target = self.path(f"{name}.key")
        if not target.exists():
            openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", target=target)

    def kubeconfig(self, name: str) -> Path:
        """Writes NAME.kubeconfig with everything inside it, so that the file can be copied."""

        def embedded(file: str) -> str:
            return base64.b64encode(self.path(file).read_bytes()).decode()

        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "embedded",
            "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": name}}],
            "clusters": [
                {
                    "name": "embedded",
                    "cluster": {"server": self.server, "certificate-authority-data": embedded("ca.crt")},
                }
            ],
            "users": [
                {
                    "name": name,
                    "user": {
                        "client-certificate-data": embedded(f"{name}.crt"),
                        "client-key-data": embedded(f"{name}.key"),
                    },
                }
            ],
        }
        target = self.path(f"{name}.kubeconfig")
        write_private(target, json.dumps(content, indent=1).encode())
        return target


def openssl(*arguments: object, target: Path) -> None:
    """Runs openssl with -out TARGET; the file appears whole or not at all and only its owner can read it."""
    staging = target.with_name(f"{target.name}.new")
    write_private(staging, b"")
    done = subprocess.run(
        ["openssl", *map(str, arguments), "-out", str(staging)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        staging.unlink()
        raise PkiError(f"openssl cannot make {target}: {done.stderr.strip()}")
    staging.rename(target)


def write_private(target: Path, content: bytes) -> None:
    """Writes a file that nobody but its owner can read, not even while it is being written."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
