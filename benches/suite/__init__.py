"""What `make bench` is made of: the list of benches, their environments, the machine, the records, what is shown.

Only the standard library is needed, so that the tests can hold README and docs against the records anywhere; plots.py,
beside this folder, draws with matplotlib.
"""
