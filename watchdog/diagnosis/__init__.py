"""What most likely lies behind an incident: what is known joined into one plain sentence, never more than that. Pure.

`diagnose` takes the incident and what is known of its hosts as a `DiagnosisInput`. Facts are drawn from it
(`server_facts`, `host_facts`), and the first signature of the table (`signatures`) whose facts are all there gives the
words.
"""

from watchdog.diagnosis.facts import Basis, DiagnosisInput, Fact, HostView
from watchdog.diagnosis.match import diagnose, matching, signs_of_hang
from watchdog.diagnosis.signatures import HOST_SIGNATURES, MEANT, PAGING, SERVER_SIGNATURES, Signature

__all__ = [
    "HOST_SIGNATURES",
    "MEANT",
    "PAGING",
    "SERVER_SIGNATURES",
    "Basis",
    "DiagnosisInput",
    "Fact",
    "HostView",
    "Signature",
    "diagnose",
    "matching",
    "signs_of_hang",
]
