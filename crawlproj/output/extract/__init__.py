"""What users ask of pages by selectors: `extracted-*.csv` and `.jsonl`.

`reading.py` makes rows of a page, by rules (config/extract_rules.py); `table.py` has them on disk.
"""
