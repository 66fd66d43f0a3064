"""Lists of labelled videos, or of parts of videos.

A :class:`Dataset` is a plain sequence of ``(path, label)`` and can be pickled; bytes, a :class:`Member` of an archive,
a :class:`Cell` of a table, or a :class:`Part` of a video, may stand for a path. What a list says besides is in
:attr:`Dataset.columns`.
"""

from framespool.datasets._annotations import (
    activitynet,
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
    space_list,
    ucf101,
)
from framespool.datasets._archives import recordio, tfrecord, webdataset
from framespool.datasets._dataset import Dataset, Mixture, mix
from framespool.datasets._folders import file_list, folder, frame_folders, images
from framespool.datasets._lerobot import lerobot
from framespool.datasets._lmdb import lmdb
from framespool.datasets._parquet import arrow, parquet
from framespool.datasets._sources import Cell, FrameFolder, Member, Part

__all__ = [
    "Cell",
    "Dataset",
    "FrameFolder",
    "Member",
    "Mixture",
    "Part",
    "activitynet",
    "arrow",
    "ava",
    "dali_file_list",
    "epic_kitchens",
    "file_list",
    "folder",
    "frame_folders",
    "gluon_list",
    "hmdb51",
    "images",
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
    "space_list",
    "tfrecord",
    "ucf101",
    "webdataset",
]
