"""Lists of labelled videos, or of parts of videos.

A :class:`Dataset` is a plain sequence of ``(path, label)`` and can be pickled; bytes, a :class:`Member` of an archive,
or a :class:`Part` of a video, may stand for a path.
"""

from framespool.datasets._archives import recordio, tfrecord, webdataset
from framespool.datasets._dataset import Dataset, Mixture, mix
from framespool.datasets._folders import file_list, folder, frame_folders, images
from framespool.datasets._sources import FrameFolder, Member, Part

__all__ = [
    "Dataset",
    "FrameFolder",
    "Member",
    "Mixture",
    "Part",
    "file_list",
    "folder",
    "frame_folders",
    "images",
    "mix",
    "recordio",
    "tfrecord",
    "webdataset",
]
