"""What the comparisons share: worker processes, and the folders of videos and encodes."""
