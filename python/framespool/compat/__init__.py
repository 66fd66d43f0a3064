"""Other libraries' names for framespool's videos: existing code runs with one line changed.

Write ``from framespool.compat import decord`` instead of ``import decord``, or ``from
framespool.compat.torchcodec.decoders import VideoDecoder`` instead of ``from torchcodec.decoders import VideoDecoder``.
Each module documents the differences. ``framespool.compat.torchvision`` has the video API that torchvision removed,
``framespool.compat.lerobot`` LeRobot's function that decodes frames by their timestamps, and
``framespool.compat.qwen_vl_utils`` the video reading of qwen-vl-utils.

These modules decode one video at a time. For training, :class:`framespool.ClipLoader` is faster: it decodes each GOP
once for all clips that need it.
"""
