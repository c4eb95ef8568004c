"""A kernel log read completely: the reader's frames, records, boots, and the proof that nothing is missing."""
