"""The embedded default: a real Kubernetes, its images and a cloud on one machine, from one command.

What lives here is called by `openstack_operator.cli` and by the tests. It knows the machine (packages, bridges, routes,
processes) and never runs inside the cluster; what runs there is `runtime`, `kit` and `services`.

    host       Debian packages, capabilities, what somebody else already holds
    programs   the cluster's programs, built from pinned Go modules
    pki        certificates and kubeconfigs
    provisioner  volumes of the default StorageClass, a daemon
    processes  daemons that we start and end, and only those
    network    bridge, routes, packet filter
    apiserver  etcd and kube-apiserver alone, for controller tests
    node       the whole cluster with one node
    up, down   the stages of the two commands
"""
