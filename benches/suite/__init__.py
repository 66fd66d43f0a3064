"""Parts of `make bench`: the list of benches, their environments, the machine, the records, the published tables.

Only the standard library is needed, so that the tests can compare README and docs with the records anywhere; plots.py,
next to this folder, needs matplotlib.
"""
