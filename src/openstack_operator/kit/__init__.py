"""What two or more OpenStack services need: configuration rows, credentials, databases, message bus, identity,
workloads, jobs, names and labels.

Knows OpenStack and no single service; imports ``runtime`` only. A helper that gets its second user moves here under a
noun, with its test.
"""
