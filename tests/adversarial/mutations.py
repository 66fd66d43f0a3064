"""Mutations of a base file: one function per kind, with all random draws from the given generator.

A mutation takes a :class:`Material` and returns the bytes of the new file with a description. Its rule states
what is known about the result:

``same``
    Unusual but readable: if the oracle decodes it without an error, framespool must too, frame by
    frame, with the oracle's timestamps.
``changed``
    Bytes were changed, and may decode to anything that no decoder can distinguish from a good frame: a
    delivered frame must be the oracle's, or one of the intact file's.
``lost``
    Data is missing in a way that a reader can notice: a delivered frame must be one of the intact file's.
``streams``
    As ``same``, for one of several video streams.
``harmless``
    Nothing that concerns a picture was added: the frames must be those of the same file without it.
``overwritten``
    The payload of packets is lost, but their places are known: frame *n* must be the intact file's frame *n* or an
    error, and the number of frames and their timestamps must not change.
``refused``
    Opening the file must fail with `UnsupportedError`.
"""

from __future__ import annotations

from adversarial import mutations_any, mutations_containers, mutations_mp4, mutations_packets
from adversarial.mutation import REGISTER, Material, Mutation, NotApplicable

__all__ = ["ALL", "Material", "Mutation", "NotApplicable"]

#: All mutations. Their order determines the cases of a seed.
ALL: list[Mutation] = [
    mutation
    for module in (mutations_any, mutations_mp4, mutations_containers, mutations_packets)
    for mutation in REGISTER
    if mutation.apply.__module__ == module.__name__
]
