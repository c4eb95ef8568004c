"""Examines an installation: one finding per thing that must be right, each with the exact fix.

Every examination only reads and asks. What cannot be verified from here is reported as such, never as well.
"""

from watchdog.doctor.finding import Finding, Grade

__all__ = ["Finding", "Grade"]
