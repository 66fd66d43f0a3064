"""Lists of transforms: their order, and the functions of the user at their end."""

from __future__ import annotations

import sys
import types

import framespool as fsp
import numpy as np
import pytest
from framespool import transforms as t
from framespool.transforms import _compose


def test_a_list_may_end_in_a_callable():
    assert _compose.split(None, "uint8") == ([], ())
    assert _compose.split([t.CenterCrop(3)], "uint8") == ([t.CenterCrop(3)], ())
    assert _compose.split((t.CenterCrop(3), len), "uint8") == (_compose.steps([t.CenterCrop(3)]), (len,))
    assert _compose.split([len], "uint8") == ([], (len,))


def test_normalize_moves_behind_what_moves_pixels():
    normalize, crop, flip, erase = t.Normalize(0.5, 0.5), t.RandomCrop(3), t.RandomHorizontalFlip(), t.RandomErasing()
    for given, expected in (
        ([normalize, crop, flip], [crop, flip, normalize]),
        ([normalize, crop, erase], [crop, normalize, erase]),
        ([normalize, erase], [normalize, erase]),
        # This crop would pad values of another range.
        ([normalize, t.RandomCrop(3, padding=1)], [normalize, t.RandomCrop(3, padding=1)]),
        ([normalize, t.RandomApply([flip])], [t.RandomApply([flip]), normalize]),
        ([normalize, t.RandomChoice([flip, erase])], [normalize, t.RandomChoice([flip, erase])]),
    ):
        assert _compose.split(given, "float32")[0] == expected


class Compose:
    """A third-party callable."""

    def __call__(self, frames):
        return frames


class CenterCrop(Compose):
    """Another library's class with the same name."""


class Own(t.CenterCrop):
    """A transform that the engine does not have."""


@pytest.mark.parametrize(
    ("transforms", "message"),
    [
        ([len, t.CenterCrop(3)], "must come last, got <built-in function len>"),
        ([CenterCrop(), t.Resize(3)], r"must come last.*use framespool\.transforms\.CenterCrop"),
        ([Compose(), Compose()], "must come last.*Compose object"),
        ([t.Resize(3), "CenterCrop"], "the last may be a callable; got 'CenterCrop'"),
        ([t.Resize(3), None], "got None"),
        ([t.Resize], r"Resize is a class; use an object, Resize\(\.\.\.\)"),
        ([t.RandomApply([t.RandomChoice([Own(3)])])], r"got RandomApply.*Own\(size=\(3, 3\)\)"),
        ([Own(3)], r"got Own\(size=\(3, 3\)\)"),
        ([t.Transform()], r"got Transform\(\)"),
        (t.Resize(3), r"must be a list, got Resize\(.*use \[...\]"),
        (Compose(), "must be a list, got .*Compose object"),
    ],
)
def test_other_lists_are_refused_with_the_way_out(transforms, message):
    with pytest.raises(fsp.errors.ArgumentError, match=message):
        _compose.split(transforms, "uint8")


def test_where_no_callable_can_be_it_is_said():
    with pytest.raises(fsp.errors.ArgumentError, match="a callable is not supported here, got <built-in function len>"):
        _compose.steps([t.Resize(3), len])


@pytest.fixture
def torch(monkeypatch):
    """The parts of PyTorch that the rule for callables uses."""
    torch = types.ModuleType("torch")
    torch.nn = types.SimpleNamespace(Module=type("Module", (), {}))
    torch.from_dlpack = np.from_dlpack
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


def test_torch_module_gets_torch_others_get_tensor(torch, videos):
    video = fsp.Video(videos / "derived" / "tiny_34x26_h264.mp4")

    class Module(torch.nn.Module):
        def __call__(self, frames):
            return "module", type(frames)

    small = t.Resize((8, 9))
    assert video.frames([0, 1], transforms=[small, Module()]).frames == ("module", np.ndarray)
    assert video.frames([0, 1], transforms=[small, lambda frames: (type(frames), frames.shape)]).frames == (
        fsp.video.Tensor,
        (2, 3, 8, 9),
    )


def test_without_torch_a_callable_gets_a_tensor(monkeypatch, videos):
    video = fsp.Video(videos / "derived" / "tiny_34x26_h264.mp4")
    for torch in (None, types.ModuleType("torch")):  # an import that is blocked, and one that is incomplete
        monkeypatch.setitem(sys.modules, "torch", torch)
        assert video.frames([0], transforms=[lambda frames: type(frames)]).frames is fsp.video.Tensor


def test_every_frame_method_accepts_a_callable(videos):
    video = fsp.Video(videos / "derived" / "tiny_34x26_h264.mp4")
    transforms = [t.Resize((8, 9)), lambda frames: frames.numpy().sum(axis=(1, 2, 3))]
    expected = video.frames([3, 4], transforms=transforms[:1]).frames.numpy().sum(axis=(1, 2, 3))
    clips = (
        video.frames([3, 4], transforms=transforms),
        video.frames_at(video.pts_seconds[3:5], transforms=transforms),
        video.clip(start=3, sequence_length=2, transforms=transforms),
    )
    for clip in clips:
        assert clip.frames.tolist() == expected.tolist() and clip.indices == [3, 4] and len(clip) == 2


def test_a_loader_hands_each_batch_to_the_callable(short_clips):
    rule = fsp.samplers.RandomClips(sequence_length=2)
    small = t.Resize((8, 9))
    seen = []

    def mean(frames):
        seen.append((type(frames), frames.shape))
        return frames.numpy().mean(axis=(1, 2, 3, 4))

    plain = list(fsp.ClipLoader(short_clips[:5], rule, batch_size=2, transforms=[small]))
    done = list(fsp.ClipLoader(short_clips[:5], rule, batch_size=2, transforms=[small, mean]))
    assert seen == [(fsp.video.Tensor, (n, 2, 3, 8, 9)) for n in (2, 2, 1)]
    for a, b in zip(plain, done, strict=True):
        assert mean(a.frames).tolist() == b.frames.tolist() and a.labels.tolist() == b.labels.tolist()


def test_an_error_of_the_callable_costs_one_batch(short_clips):
    calls = []

    def picky(frames):
        calls.append(frames)
        if len(calls) == 2:
            raise KeyError("no")
        return frames

    rule = fsp.samplers.RandomClips(sequence_length=2)
    epoch = iter(fsp.ClipLoader(short_clips[:5], rule, batch_size=2, transforms=[t.Resize((8, 9)), picky]))
    assert len(next(epoch)) == 2
    with pytest.raises(KeyError, match="no"):
        next(epoch)
    assert len(next(epoch)) == 1
    with pytest.raises(StopIteration):
        next(epoch)


def test_callable_needs_frames_of_one_size(short_clips):
    rule = fsp.samplers.RandomClips(sequence_length=2)
    for transforms in ([len], [t.Resize(8), len]):
        with pytest.raises(fsp.errors.ArgumentError, match=r"built-in function len.*one size.*put Resize"):
            next(iter(fsp.ClipLoader(short_clips[:2], rule, batch_size=2, transforms=transforms)))
