"""Looking over an installation: one finding per thing that has to be right, each with the exact fix.

Every examination reads and asks; none changes anything. What cannot be seen from here is said to be unseen, not well.
"""

from watchdog.doctor.finding import Finding, Grade

__all__ = ["Finding", "Grade"]
