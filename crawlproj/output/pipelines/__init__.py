"""What an item passes before it is written: rows are checked, made one clean line, and counted.

A project names them in its settings, in this order, by classes of its own (`pipelines/`) or as they
are here; items of other classes pass too. They know items, and neither files nor Redis.
"""
