"""What the comparisons share: worker processes, the folders of videos and encodes, and the text of records."""
