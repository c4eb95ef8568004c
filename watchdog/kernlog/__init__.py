"""Kernel lines: taking them apart, classifying them by rules, and folding them into observations. Pure."""
