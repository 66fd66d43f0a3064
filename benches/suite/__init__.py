"""Parts of `make bench`: the list of benches, their environments, the machine, the records, what is published of them.

Only the standard library is needed, so that the tests can compare README and docs with the records anywhere.
"""
