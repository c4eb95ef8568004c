"""Any bytes give a configuration or a ConfigError; secrets are in no message, repr or plan, whatever is broken."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.config_files import FIXTURES, accepting
from watchdog.cli.validate import plan_json, plan_text
from watchdog.config import Config, ReceiverSettings, ServerSettings
from watchdog.errors import ConfigError
from watchdog.loading import Loaded, read
from watchdog.loading.problems import SettingError
from watchdog.loading.scalars import duration, written_duration
from watchdog.model import Severity
from watchdog.policy import AlertPlan
from watchdog.policy.plan import plan

SEEDS = [path.read_bytes() for path in sorted((FIXTURES / "bad").glob("*.yaml"))]
SECONDS = 3.0
"""More than any small file may take on a busy machine."""

GOOD = """\
servers:
  - name: deepseek
    base_url: http://192.0.2.10:8000/v1
    api_key: {api_key}
    headers: {{X-Token: {header}}}
    hosts: [head]
    probe: {{interval: 30s, timeout: 20s}}
hosts:
  - name: head
    address: 192.0.2.10
    user: monitor
    identity: |
      -----BEGIN OPENSSH PRIVATE KEY-----
      {identity}
    passphrase: {passphrase}
    known_hosts: /etc/hostname
receivers:
  - name: phone
    url: json://user:{url}@192.0.2.9/hook
  - name: prometheus
    alertmanager: [http://user:{alertmanager}@192.0.2.9:9093]
    min_severity: info
"""
FIELDS = ("api_key", "header", "identity", "passphrase", "url", "alertmanager")


def quoting(urls: Sequence[str]) -> Sequence[str | None]:
    """Stands for a delivery library that refuses every URL and repeats it."""
    return [f"bad: {url}" for url in urls]


def read_any(data: bytes, environ: dict[str, str] | None = None) -> Loaded | ConfigError:
    """Read `data`; gives what came of it, and fails when it took too long."""
    began = time.perf_counter()
    try:
        # Whether apprise takes a URL is apprise's part: it is slow, and has its own tests.
        return read(data, "config.yaml", mode=0o100644, environ=environ or {}, check_urls=quoting)
    except ConfigError as error:
        return error
    finally:
        assert time.perf_counter() - began < SECONDS


@given(st.binary(max_size=2000))
def test_any_bytes_give_a_configuration_or_a_config_error(data: bytes) -> None:
    read_any(data)


@given(st.text(alphabet=" \n-:#&*!|>'\"%@`[]{},?<=~.aenv$servrhosti0123é\x00\t\u2028", max_size=400))
def test_any_text_of_yaml_signs_gives_a_configuration_or_a_config_error(text: str) -> None:
    read_any(text.encode())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8) | st.just("${env:A}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = ("servers", "hosts", "receivers", "rules", "alerting", "state_dir", "name", "base_url", "api_key", "headers")
MORE_NAMES = (
    "extra_body",
    "probe",
    "interval",
    "failures",
    "address",
    "user",
    "known_hosts",
    "url",
    "files",
    "identity",
)


@given(
    st.recursive(
        json_values,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES + MORE_NAMES), inner, max_size=6)
        ),
        max_leaves=30,
    )
)
def test_any_values_under_real_keys_give_a_configuration_or_a_config_error(value: object) -> None:
    """JSON is YAML; this gets past the parser and into the rules."""
    read_any(json.dumps(value).encode(), {"A": "x"})


@given(st.sampled_from(SEEDS), st.integers(0, 2**32), st.integers(1, 8))
@settings(max_examples=300)
def test_a_damaged_file_gives_a_configuration_or_a_config_error(data: bytes, seed: int, damages: int) -> None:
    read_any(damaged(data, random.Random(seed), damages))


def damaged(data: bytes, chance: random.Random, damages: int, *, longest: int = 40) -> bytes:
    """`data` with a few pieces of at most `longest` bytes removed, doubled, changed or moved."""
    for _ in range(damages):
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + min(longest, chance.choice((1, 1, 1, 2, 8, 40))))
        sign = bytes([chance.choice(b" \n:-'\"[]{}#&*!$x\x00\xff")])
        data = chance.choice(
            (
                data[:start] + data[end:],
                data[:end] + data[start:],
                data[:start] + sign + data[end:],
                data[:start] + sign + data[start:],
            )
        )
    return data


secrets = st.text(alphabet="QZXJ0123456789-_.~+", min_size=6, max_size=20).map(lambda text: f"Q~{text}~Z")


@given(st.lists(secrets, min_size=6, max_size=6, unique=True), st.sampled_from(("typed", "env")))
def test_secrets_of_a_good_file_are_in_no_repr_and_no_plan(values: list[str], how: str) -> None:
    loaded = read_secrets(values, how)
    assert isinstance(loaded, Loaded)
    shown = [repr(loaded), str(loaded), plan_text(loaded.config), json.dumps(plan_json(loaded)), str(loaded.warnings)]
    assert not any(value in text for value in values for text in shown)
    known = {secret.reveal() for secret in loaded.config.secrets}
    assert all(any(value in text for text in known) for value in values)


def read_secrets(values: list[str], how: str) -> Loaded | ConfigError:
    """Read the good file with these secrets, typed in (mode 0600) or taken from the environment."""
    environ = dict(zip(map(str.upper, FIELDS), values, strict=True))
    given_as = values if how == "typed" else [f"${{env:{name}}}" for name in environ]
    text = GOOD.format(**dict(zip(FIELDS, given_as, strict=True)))
    try:
        return read(text.encode(), "config.yaml", mode=0o100600, environ=environ, check_urls=accepting)
    except ConfigError as error:
        return error


@given(st.lists(secrets, min_size=6, max_size=6, unique=True), st.integers(0, 2**32), st.integers(1, 6), st.booleans())
@settings(max_examples=400)
def test_secrets_of_a_damaged_file_are_in_no_message(values: list[str], seed: int, damages: int, typed: bool) -> None:
    """Also when the receiver's URL is quoted back.

    Secrets of the environment survive any damage. Typed ones survive slips of single keys; no program can know that
    half a line that was moved elsewhere is a secret.
    """
    environ = dict(zip(map(str.upper, FIELDS), values, strict=True))
    given_as = values if typed else [f"${{env:{name}}}" for name in environ]
    text = GOOD.format(**dict(zip(FIELDS, given_as, strict=True))).encode()
    chance = random.Random(seed)
    bad = damaged(text, chance, 1, longest=1) if typed else damaged(text, chance, damages)
    result = read_any(bad, environ)
    shown = str(result) + repr(result)
    assert not any(value in shown for value in values)


receivers = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(list(Severity))),
    min_size=1,
    max_size=4,
    unique_by=lambda one: one[0],
)


@given(receivers, st.lists(st.sampled_from("abcd"), max_size=3, unique=True))
def test_the_plan_says_what_the_policy_does(given_receivers: list[tuple[str, Severity]], wanted: list[str]) -> None:
    """`validate` shows who will hear; the policy decides who does: they must never differ."""
    names = tuple(name for name in wanted if name in dict(given_receivers))
    config = Config(
        servers=(ServerSettings(name="s", base_url="http://192.0.2.1/v1", receivers=names),),
        receivers=tuple(ReceiverSettings(name=name, min_severity=severity) for name, severity in given_receivers),
    )
    (check,) = plan(config)
    for severity in Severity:
        assert check.hear(severity) == AlertPlan.from_config(config).receivers_for(check.key, {}, severity)


@given(st.integers(1, 3660 * 86400))
def test_a_written_duration_is_read_back(seconds: int) -> None:
    assert duration(written_duration(float(seconds))) == seconds


@given(st.text(alphabet="0123456789.smhdw -+e٣", max_size=20))
def test_any_text_is_a_duration_or_a_fault(text: str) -> None:
    with suppress(SettingError):
        assert 0.0 <= duration(text) <= 3660 * 86400.0


def test_the_good_file_of_these_properties_is_good() -> None:
    """Else they would prove little."""
    result = read_secrets(["aaaaaa", "bbbbbb", "cccccc", "dddddd", "eeeeee", "ffffff"], "typed")
    assert isinstance(result, Loaded), pytest.fail(str(result))
