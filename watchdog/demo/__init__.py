"""The embedded rig and the story told with it: the real daemon against servers that can be broken on demand."""
