"""Converts each program's JSON to the tables of a record (suite/record.py), one function per program."""
