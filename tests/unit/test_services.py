"""The table of what services can do, held against the plugins of the installed apprise."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.services import URLS
from watchdog.message.shortening import Limits
from watchdog.model import Delivery, NotificationKind, Severity
from watchdog.notify.apprise_receiver import open_plugin
from watchdog.notify.services import END, LEVELS, Loudness, Manner, limits_of, services

ROWS = {row.schemes[0]: row for row in services().values()}
LOUD = [scheme for scheme, row in ROWS.items() if row.attribute]
KEYED = [scheme for scheme, row in ROWS.items() if row.key]


def delivery(kind: NotificationKind, severity: Severity) -> Delivery:
    return Delivery(
        row=1, receiver="phone", incident_id="6f39e044", kind=kind, severity=severity, title="t", body="b",
        created_at=0.0, attempt=1,
    )  # fmt: skip


def message(level: str) -> Delivery:
    return (
        delivery(NotificationKind.RESOLVED, Severity.PAGE)
        if level == END
        else delivery(NotificationKind.FIRING, Severity(level))
    )


def written(value: object) -> str:
    """As it stands in a URL."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def prepared(url: str, level: str) -> Any:
    plugin = open_plugin(url)
    Manner.of(url).prepare(plugin, message(level))
    return plugin


def test_every_row_has_an_address_to_try_and_there_are_many_that_know_loudness() -> None:
    assert ROWS.keys() == URLS.keys()
    assert len(LOUD) >= 25


@pytest.mark.parametrize("scheme", LOUD)
def test_the_plugin_has_the_attribute_and_would_take_each_value_from_a_url_too(scheme: str) -> None:
    """Fails when an apprise release drops or renames what we set."""
    row, url = ROWS[scheme], URLS[scheme]
    for level in LEVELS:
        value = row.loudness[level]
        asked = f"{url}?{row.query[0]}={written(value)}"
        expected = getattr(open_plugin(asked), row.attribute)
        found = getattr(prepared(url, level), row.attribute)
        assert type(found) is type(expected)
        if scheme == "fcm":
            assert found.payload() == expected.payload()
        elif scheme == "gotify":
            assert found == value in range(11)  # any number, though a URL knows five of them
        else:
            assert found == expected == value


@pytest.mark.parametrize("scheme", LOUD)
def test_a_page_is_the_loudest_and_an_end_never_rings_like_one(scheme: str) -> None:
    row = ROWS[scheme]
    assert row.loudness[Severity.PAGE.value] != row.loudness[END]
    assert row.loudness[Severity.PAGE.value] != row.loudness[Severity.INFO.value]


@pytest.mark.parametrize("scheme", LOUD)
def test_what_the_user_wrote_into_the_url_wins(scheme: str) -> None:
    row = ROWS[scheme]
    quiet = row.loudness[END]
    url = f"{URLS[scheme]}?{row.query[0]}={written(quiet)}"
    assert Manner.of(url).loudness is Loudness.URL
    if scheme != "fcm":
        assert getattr(prepared(url, Severity.PAGE.value), row.attribute) == getattr(open_plugin(url), row.attribute)


@pytest.mark.parametrize("scheme", KEYED)
def test_an_incident_has_one_key_from_its_trigger_to_its_end(scheme: str) -> None:
    row, url = ROWS[scheme], URLS[scheme]
    plugin = open_plugin(url)
    assert hasattr(plugin, row.key)
    assert hasattr(plugin, "action")
    keys = {getattr(prepared(url, level), row.key) for level in LEVELS}
    assert keys == {"6f39e044"}
    actions: Any = type(plugin).template_args["action"]["values"]
    assert row.open in actions
    assert row.end in (*actions, "by_alias")


@pytest.mark.parametrize("scheme", KEYED)
def test_a_fixed_key_or_action_in_the_url_stays_as_it_is(scheme: str) -> None:
    row = ROWS[scheme]
    parameter = row.key
    assert Manner.of(f"{URLS[scheme]}?{parameter}=mine").has_own_key
    assert not Manner.of(f"{URLS[scheme]}?{parameter}=mine").opens_and_closes
    assert Manner.of(f"{URLS[scheme]}?action=map").opens_and_closes
    assert not Manner.of(f"{URLS[scheme]}?action={row.open if row.open != 'map' else 'critical'}").opens_and_closes


def test_a_service_without_a_row_is_sent_to_as_it_is() -> None:
    manner = Manner.of("json://127.0.0.1/hook")
    plugin = open_plugin("json://127.0.0.1/hook")
    manner.prepare(plugin, message("page"))
    assert (manner.service, manner.loudness, manner.opens_and_closes) == (None, Loudness.NONE, False)
    assert limits_of(None, plugin) == Limits(title=250, body=32768)


@pytest.mark.parametrize(
    ("scheme", "limits"),
    [
        ("pagerduty", Limits(title=0, body=1024, joined=True)),
        ("pover", Limits(title=250, body=1024)),
        ("ntfy", Limits(title=200, body=7800, body_bytes=4000, joined=True)),
        ("seven", Limits(title=0, body=160, joined=True)),
        ("splunk", Limits(title=60, body=400)),
    ],
)
def test_the_room_is_that_of_the_service(scheme: str, limits: Limits) -> None:
    assert limits_of(ROWS[scheme], open_plugin(URLS[scheme])) == limits
