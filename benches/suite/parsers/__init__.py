"""From each program's own JSON to the tables of a record (suite/record.py), one function per program."""
