"""Checks of arguments, texts, progress, ranks and logs, which all other packages use."""
