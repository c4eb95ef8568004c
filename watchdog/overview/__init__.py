"""What people and machines are shown of the state: status, figures over a time, plots and pages. Changes nothing."""

from watchdog import kinds

GENERATION, KERNEL_LOG = kinds.GENERATION.key(""), kinds.KERNEL_LOG.key("")
"""How the keys of the checks begin that stand for servers and for hosts."""
