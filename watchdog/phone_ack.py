"""Acknowledging from the phone: asks the services on which a page can be answered, and does as `ack` does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import tzinfo

import structlog

from watchdog.clock import Clock
from watchdog.errors import StoreError
from watchdog.ingest import Ingest
from watchdog.model import Delivery, Incident, Outcome, Severity
from watchdog.notify.ack_channels import AckChannel, AckError, Receipt
from watchdog.store import Store
from watchdog.text import timestamp

log = structlog.get_logger("phone_ack")
LOOK_EVERY_S = 2.0
"""Well below the 5 s in which somebody who has pressed the button wants to see that it was heard."""
REASON = "acknowledged by phone"


class PhoneAck:
    """Asks every channel while a page waits for an answer there, until it is cancelled."""

    def __init__(
        self,
        store: Store,
        ingest: Ingest,
        clock: Clock,
        channels: Mapping[str, AckChannel],
        *,
        zone: tzinfo | None = None,
    ) -> None:
        """`channels` by receiver; `zone` is for times in what is told back."""
        self._store = store
        self._ingest = ingest
        self._clock = clock
        self._channels = channels
        self._zone = zone
        self._failing: set[str] = set()
        self._busy = set(channels)
        """Where something may wait to be taken back; an idle watchdog asks neither the store nor a service."""

    def note(self, delivery: Delivery, outcome: Outcome) -> None:
        """An attempt to deliver; a page that can be answered has to be looked after."""
        if outcome.receipt:
            self._busy.add(delivery.receiver)

    async def run(self) -> None:
        """Ask every two seconds; no channel waits for another."""
        await asyncio.gather(*(self._follow(name, channel) for name, channel in self._channels.items()))

    async def _follow(self, receiver: str, channel: AckChannel) -> None:
        while True:
            try:
                await self.look(receiver, channel)
            except (AckError, ValueError) as error:  # ValueError: apprise does not take the address
                if receiver not in self._failing:
                    log.warning("cannot_ask_for_acknowledgements", receiver=receiver, problem=str(error))
                self._failing.add(receiver)
            else:
                self._failing.discard(receiver)
            await self._clock.sleep(LOOK_EVERY_S)

    async def look(self, receiver: str, channel: AckChannel) -> None:
        """Ask once, and take back what needs no answer any more. Raises `AckError`."""
        waiting = {one.id: one for one in self._ingest.open_incidents if _waits_at(receiver, one)}
        if not waiting and receiver not in self._busy:
            return
        receipts = [Receipt(*row) for row in await self._store.receipts(receiver)]
        self._busy = self._busy | {receiver} if waiting or receipts else self._busy - {receiver}
        groups = await self._store.groups(receiver)
        for group, members in groups.items():
            member = next((one for one in members if one in waiting), None)
            if member is not None:
                waiting[group] = waiting[member]
        newest = {receipt.incident_id: receipt for receipt in receipts}
        if waiting:
            for incident_id in await channel.acknowledged(waiting.keys(), receipts):
                await self._acknowledge(receiver, channel, incident_id, waiting.pop(incident_id))
        for receipt in receipts:
            if receipt.incident_id not in waiting or newest[receipt.incident_id] is not receipt:
                members = groups.get(receipt.incident_id, (receipt.incident_id,))
                await channel.take_back(receipt, next(filter(None, map(self._said, members)), ""))
                await self._store.settle_receipt(receipt.row)

    async def _acknowledge(self, receiver: str, channel: AckChannel, asked: str, incident: Incident) -> None:
        """`asked` is the id on the phone: of `incident`, or of a group that it is one of."""
        now = self._clock.wall()
        try:
            await self._ingest.acknowledge(asked, now, REASON, receiver)
        except StoreError:
            return  # it ended a moment ago
        log.info("acknowledged", incident=asked, receiver=receiver)
        try:
            await channel.confirm(asked, self._said(incident.id))
        except AckError as error:
            log.warning("acknowledgement_not_confirmed", receiver=receiver, problem=str(error))

    def _said(self, incident_id: str) -> str:
        """What the phone is told of an incident that waits for nobody; "" if it is over."""
        now = self._clock.wall()
        found = next((one for one in self._ingest.open_incidents if one.id == incident_id), None)
        if found is None or found.acknowledged_at is None:
            return ""
        return f"{REASON} {timestamp(found.acknowledged_at, now, self._zone)}"


def _waits_at(receiver: str, incident: Incident) -> bool:
    """Whether a page about `incident` at `receiver` waits for somebody to acknowledge it."""
    told = incident.notified.get(receiver)
    return told is not None and told.severity is Severity.PAGE and incident.acknowledged_at is None
