"""What `init` finds out, asks and writes: from a base URL and host names to a working installation.

Nothing is changed on a watched machine; what has to be done there is printed for a person to do.
"""
