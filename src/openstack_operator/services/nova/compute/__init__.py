"""NovaCompute: libvirt and nova-compute on the nodes that run servers."""
