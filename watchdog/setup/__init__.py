"""From a base URL and host names to a working installation: what `init` finds out, asks, and writes.

Nothing is changed on a watched machine; what has to be done there is printed for a person to do.
"""
