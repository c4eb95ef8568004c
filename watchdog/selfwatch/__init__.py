"""The watchdog watches itself: did we sleep, is our own network down, do all checks come round (design §5.4)?

Results pass through `SelfWatch.judged` on their way from the scheduler to the ingest. What only our own trouble
explains becomes unknown there; everything else goes on as it came.
"""

from watchdog.selfwatch.local_network import target_endpoints
from watchdog.selfwatch.watch import SelfWatch

__all__ = ["SelfWatch", "target_endpoints"]
