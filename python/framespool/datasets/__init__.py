"""Lists of labeled videos, images or video segments.

A :class:`Dataset` is a plain sequence of ``(source, label)`` and can be pickled. A source is a path, the bytes of a
file, an :class:`ArchiveMember`, a :class:`TableCell`, an :class:`ImageSequence` or a :class:`VideoSegment`. Other
columns of a list are in :attr:`Dataset.columns`. For an overview of the readers see docs/howto/datasets.md.
"""

from framespool._sources import ArchiveMember, ImageSequence, TableCell, VideoSegment
from framespool.datasets._action_recognition import (
    activitynet,
    ava,
    epic_kitchens,
    hmdb51,
    jester,
    kinetics,
    something_something,
    ucf101,
)
from framespool.datasets._archives import recordio, tfrecord, webdataset
from framespool.datasets._dataset import Dataset
from framespool.datasets._folders import folder, frame_folder, image_folder
from framespool.datasets._lerobot import lerobot
from framespool.datasets._lists import annotation_file, dali_file_list, file_list, gluon_list, json_lines, rawframes
from framespool.datasets._lmdb import lmdb
from framespool.datasets._mixture import MixtureDataset, mix
from framespool.datasets._parquet import arrow, parquet

__all__ = [
    "TableCell",
    "Dataset",
    "ImageSequence",
    "ArchiveMember",
    "MixtureDataset",
    "VideoSegment",
    "activitynet",
    "arrow",
    "ava",
    "dali_file_list",
    "epic_kitchens",
    "file_list",
    "folder",
    "frame_folder",
    "gluon_list",
    "hmdb51",
    "image_folder",
    "jester",
    "json_lines",
    "kinetics",
    "lerobot",
    "lmdb",
    "mix",
    "parquet",
    "rawframes",
    "recordio",
    "something_something",
    "annotation_file",
    "tfrecord",
    "ucf101",
    "webdataset",
]
