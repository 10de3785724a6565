"""``python -m openstack_operator``: the same as the command openstack-operator."""

from openstack_operator.cli.main import main

if __name__ == "__main__":
    main()
