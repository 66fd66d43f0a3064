"""Lists of labeled videos, images or video segments.

A `Dataset` is a plain sequence of `(source, label)` and can be pickled. A source is a path, the bytes of a file, an
`ArchiveMember`, a `TableCell`, an `ImageSequence` or a `VideoSegment`; or `Sources`, the videos and images of a sample.
Other columns of a list are in `Dataset.columns`. For an overview of the readers see docs/howto/datasets.md.
"""

from framespool.datasets._activitynet import activitynet
from framespool.datasets._archives import recordio, tfrecord, webdataset
from framespool.datasets._ava import ava
from framespool.datasets._dataset import Dataset
from framespool.datasets._depth import DepthCodes
from framespool.datasets._epic_kitchens import epic_kitchens
from framespool.datasets._folders import audio_folder, folder, frame_folder, image_folder
from framespool.datasets._hmdb51 import hmdb51
from framespool.datasets._in_memory import from_dataframe, from_huggingface
from framespool.datasets._jester import jester
from framespool.datasets._kinetics import kinetics
from framespool.datasets._lerobot import lerobot, lerobot_stats
from framespool.datasets._lists import annotation_file, csv, dali_file_list, json_lines
from framespool.datasets._lmdb import lmdb
from framespool.datasets._mixture import MixtureDataset, mix
from framespool.datasets._normalization import Normalization
from framespool.datasets._parquet import arrow, parquet
from framespool.datasets._something_something import something_something
from framespool.datasets._ucf101 import ucf101
from framespool.datasets._weighted import WeightedDataset, balanced, weighted
from framespool.video._sources import ArchiveMember, ImageSequence, Sources, TableCell, VideoSegment

__all__ = [
    "TableCell",
    "Dataset",
    "DepthCodes",
    "ImageSequence",
    "ArchiveMember",
    "MixtureDataset",
    "Normalization",
    "Sources",
    "VideoSegment",
    "WeightedDataset",
    "activitynet",
    "annotation_file",
    "arrow",
    "audio_folder",
    "ava",
    "balanced",
    "csv",
    "dali_file_list",
    "epic_kitchens",
    "folder",
    "frame_folder",
    "from_dataframe",
    "from_huggingface",
    "hmdb51",
    "image_folder",
    "jester",
    "json_lines",
    "kinetics",
    "lerobot",
    "lerobot_stats",
    "lmdb",
    "mix",
    "parquet",
    "recordio",
    "something_something",
    "tfrecord",
    "ucf101",
    "webdataset",
    "weighted",
]
