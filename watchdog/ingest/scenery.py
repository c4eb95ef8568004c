"""The newest look at every server and host, from which the scene of an incident is set for its diagnosis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from watchdog.diagnosis import HostView, Scene, diagnose
from watchdog.model import Incident, IncidentStatus, Nature, Observation, Verdict
from watchdog.policy import BLIND_PREFIX, AlertPlan

_KINDS = ("generation", "progress", "kernel_log", "vitals")


class Scenery:
    """Remembers one observation per condition: nothing that grows. After a restart it is empty and fills at once."""

    def __init__(self) -> None:
        """Nothing seen yet."""
        self._newest: dict[str, Observation] = {}

    def note(self, observation: Observation) -> None:
        """Take one observation in."""
        if observation.nature is Nature.CONDITION and observation.key.partition("/")[0] in _KINDS:
            self._newest[observation.key] = observation

    def forget(self, plan: AlertPlan) -> None:
        """Forget what `plan` does not watch."""
        self._newest = {key: seen for key, seen in self._newest.items() if plan.covers(key)}

    def noted(self, observation: Observation) -> Observation:
        """`observation` with a word about the host's clock at its kernel lines, where we know that it is off."""
        name = observation.labels.get("host")
        if observation.nature is not Nature.OCCURRENCE or name is None:
            return observation
        host = HostView(name=name, vitals=self._newest.get(f"vitals/{name}"))
        return replace(observation, evidence=host.noted(observation.evidence)) if host.clock_offset_s else observation

    def diagnosed(self, incident: Incident, plan: AlertPlan, others: Mapping[str, Incident], now: float) -> Incident:
        """`incident` with the diagnosis of now; with the one it had, where nothing new can be said."""
        newest = self._newest.get(incident.key)
        if newest is None or newest.verdict is not Verdict.FAIL or incident.status is not IncidentStatus.FIRING:
            return incident
        found = diagnose(self._scene(incident, newest, plan, others.values(), now))
        return incident if found is None or found == incident.diagnosis else replace(incident, diagnosis=found)

    def concerned(self, observation: Observation, plan: AlertPlan, others: Mapping[str, Incident]) -> list[str]:
        """Keys of the open incidents whose diagnosis may change by `observation`: those of the servers on its host."""
        host = observation.labels.get("host")
        if host is None or not others or observation.key.startswith(("generation/", "progress/")):
            return []
        servers = [server for server, hosts in plan.runs_on.items() if host in hosts]
        keys = [f"{kind}/{server}" for server in servers for kind in ("generation", "progress")]
        return [key for key in keys if key in others and key != observation.key]

    def _scene(
        self, incident: Incident, newest: Observation, plan: AlertPlan, others: Iterable[Incident], now: float
    ) -> Scene:
        server, about = incident.labels.get("server"), incident.labels.get("host")
        names = plan.runs_on.get(server, ()) if server is not None else (about,) if about is not None else ()
        opened = list(others)
        hosts = tuple(
            HostView(
                name=name,
                vitals=self._newest.get(f"vitals/{name}"),
                kernel_log=self._newest.get(f"kernel_log/{name}"),
                occurrences=tuple(
                    one for one in opened if one.nature is Nature.OCCURRENCE and one.labels.get("host") == name
                ),
            )
            for name in names
        )
        seen = [self._newest.get(f"generation/{name}") for name, on in plan.runs_on.items() if about in on]
        road = next((one for one in opened if one.key.startswith(BLIND_PREFIX) and one.reason == "blind"), None)
        return Scene(
            incident=incident,
            newest=newest,
            now=now,
            hosts=hosts,
            servers=tuple(one for one in seen if one is not None),
            own_road="" if road is None else road.summary,
        )
