"""Lists of labelled videos, or of parts of videos.

A :class:`Dataset` is a plain sequence of ``(path, label)`` and can be pickled; bytes, a :class:`ArchiveMember` of an archive,
a :class:`TableCell` of a table, or a :class:`VideoSegment` of a video, may stand for a path. What a list says besides is in
:attr:`Dataset.columns`.
"""

from framespool.datasets._annotations import (
    activitynet,
    annotation_file,
    ava,
    dali_file_list,
    epic_kitchens,
    gluon_list,
    hmdb51,
    jester,
    json_lines,
    kinetics,
    rawframes,
    something_something,
    ucf101,
)
from framespool.datasets._archives import recordio, tfrecord, webdataset
from framespool.datasets._dataset import Dataset, MixtureDataset, mix
from framespool.datasets._folders import file_list, folder, frame_folder, image_folder
from framespool.datasets._lerobot import lerobot
from framespool.datasets._lmdb import lmdb
from framespool.datasets._parquet import arrow, parquet
from framespool.datasets._sources import ArchiveMember, ImageSequence, TableCell, VideoSegment

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
