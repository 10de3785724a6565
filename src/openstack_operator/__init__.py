"""openstack-operator: installs, configures, heals, scales and upgrades OpenStack on any conformant Kubernetes.

Layers, outermost first (imports only go down; import-linter enforces it):
``cli -> embedded -> controlplane | dataplane -> services -> kit -> runtime``. ARCHITECTURE.md tells what lives where.
"""

__version__ = "0.1.0"
