"""What a good configuration becomes, what is only warned about, and where the file is looked for."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.config_files import ENVIRON, accepting, lay_out
from watchdog.config import Config, ProbeSettings, Secret, Size
from watchdog.errors import ConfigError
from watchdog.loading import Loaded, load, locate, read
from watchdog.loading.receiver_checks import may_hold_token
from watchdog.loading.references import too_open
from watchdog.loading.schema import Key, keys_of
from watchdog.model import Severity

SHIPPED = Path(__file__).parents[2] / "config"
OLDER = Path(__file__).parents[1] / "fixtures/config/old/full.yaml"
RECEIVERS = "receivers: [{name: phone, url: 'json://127.0.0.1/hook'}]\n"


def read_text(text: str, environ: Mapping[str, str] = ENVIRON, mode: int | None = None) -> Loaded:
    """Read `text` as a configuration."""
    return read(text.encode(), "config.yaml", environ=environ, mode=mode, check_urls=accepting)


def read_server(lines: str, mode: int | None = None) -> Loaded:
    """Read a configuration with one server that has these lines more, and one receiver."""
    indented = "".join(f"    {line}\n" for line in lines.splitlines())
    head = "servers:\n  - name: deepseek\n    base_url: http://192.0.2.10:8000/v1\n"
    return read_text(head + indented + RECEIVERS, mode=mode)


def warnings_of(loaded: Loaded) -> str:
    """All warnings as one text."""
    return "\n".join(str(warning) for warning in loaded.warnings)


def all_keys(kind: type = Config) -> list[Key]:
    """Every key of the section `kind` and of the sections inside it."""
    found: list[Key] = []
    for key in keys_of(kind).values():
        found += [key, *(all_keys(key.form.section) if key.form.section else [])]
    return found


def test_the_minimal_example_loads_without_a_warning(tmp_path: Path) -> None:
    loaded = load(lay_out(tmp_path, SHIPPED / "minimal.yaml", mode=0o644), environ=ENVIRON, check_urls=accepting)
    (server,) = loaded.config.servers
    assert server.probe == ProbeSettings(
        interval_s=120, timeout_s=60, max_tokens=5, failures=3, successes=2, stream=True
    )
    assert loaded.warnings == ()


def test_the_full_example_loads_without_a_warning(tmp_path: Path) -> None:
    loaded = load(lay_out(tmp_path, SHIPPED / "full.yaml", mode=0o644), environ=ENVIRON, check_urls=accepting)
    assert loaded.warnings == ()
    assert [host.name for host in loaded.config.hosts] == ["head", "worker"]
    assert loaded.config.hosts[0].known_hosts == str(tmp_path / "known_hosts")


def test_a_configuration_written_for_an_older_version_means_what_it_meant(tmp_path: Path) -> None:
    """The full example as the first version shipped it: what came later has its default."""
    older = load(lay_out(tmp_path, OLDER, mode=0o600), environ=ENVIRON, check_urls=accepting)
    assert older.warnings == ()
    newer = load(lay_out(tmp_path, SHIPPED / "full.yaml"), environ=ENVIRON, check_urls=accepting).config
    assert older.config.servers == newer.servers[:1]
    assert older.config.hosts == newer.hosts
    assert [replace(one, escalate=None) for one in newer.receivers] == list(older.config.receivers)
    assert older.config.alerting == newer.alerting
    assert older.config.maintenance == newer.maintenance


def test_every_setting_is_in_the_full_example() -> None:
    """A new field of a settings class must be documented there, in the section it belongs to."""
    document = yaml.safe_load((SHIPPED / "full.yaml").read_text())

    def missing(kind: type, given: list[Any], path: str) -> list[str]:
        found = []
        for name, key in keys_of(kind).items():
            values = [entry[name] for entry in given if name in entry]
            if not values:
                found.append(f"{path}{name}")
            if key.form.section is not None:
                flat = [entry for value in values for entry in (value if isinstance(value, list) else [value])]
                found += missing(key.form.section, flat, f"{path}{name}.")
        return found

    assert missing(Config, [document], "") == []


def test_the_full_example_shows_the_real_defaults(tmp_path: Path) -> None:
    """Sections whose comments promise defaults hold exactly those."""
    config = load(lay_out(tmp_path, SHIPPED / "full.yaml"), environ=ENVIRON, check_urls=accepting).config
    assert config.servers[0].probe == ProbeSettings()
    assert config.hosts[0].kernel_log == config.hosts[1].kernel_log
    assert config.alerting == Config().alerting
    assert config.rules == Config().rules


def test_every_number_has_its_limits_and_a_default_within_them() -> None:
    numbers = [key for key in all_keys() if key.form.type in (int, float, Size)]
    assert len(numbers) > 25
    for key in numbers:
        assert key.form.limits is not None, key
        assert key.default is None or key.form.limits.least <= key.default <= key.form.limits.most
    assert all(key.form.limits is None for key in all_keys() if key not in numbers)


def test_a_list_that_may_not_be_empty_and_a_text_of_a_special_form_are_what_they_say() -> None:
    assert {key.name for key in all_keys() if key.form.when_empty} == {
        "receivers",
        "alertmanager",
        "days",
        "to",
        "servers",
    }
    assert [key.name for key in all_keys() if key.form.has_lines] == ["identity"]
    for key in all_keys():
        assert not key.form.when_empty or key.form.type is tuple
        assert not key.form.has_lines or key.form.type is Secret
        assert not key.form.is_path or key.form.type is str


def test_every_float_is_a_duration() -> None:
    """The key of a float leaves out `_s`, because its value has a unit; another float needs a kind of its own."""
    assert all(key.field == f"{key.name}_s" for key in all_keys() if key.form.type is float)


def test_a_secret_may_stand_inside_a_longer_text() -> None:
    loaded = read_server("headers: {Authorization: 'Token ${env:DEEPSEEK_API_KEY}!'}")
    assert loaded.config.servers[0].headers["Authorization"] == Secret("Token k3y-of-the-server!")
    assert Secret("k3y-of-the-server") in loaded.config.secrets


def test_a_reference_needs_no_quotes_inside_braces() -> None:
    """`{url: ${env:URL}, …}` is how people write it, though YAML alone would not read it."""
    loaded = read_text(
        "servers: [{name: a, base_url: http://192.0.2.1/v1, api_key: ${env:KEY}, headers: {X: a${env:V}b}}]\n"
        "receivers: [{name: b, alertmanager: [${env:PHONE_URL}]}]\n",
        {"KEY": "k", "V": "v", "PHONE_URL": "http://192.0.2.2:9093"},
    )
    assert loaded.config.servers[0].api_key == Secret("k")
    assert loaded.config.servers[0].headers == {"X": Secret("avb")}
    assert loaded.config.receivers[0].alertmanager == (Secret("http://192.0.2.2:9093"),)


def test_values_are_not_expanded_twice() -> None:
    loaded = read_text(
        "servers: [{name: a, base_url: 'http://192.0.2.1/v1', api_key: '${env:OUTER}'}]\n" + RECEIVERS,
        {"OUTER": "${env:INNER}", "INNER": "x"},
    )
    assert loaded.config.servers[0].api_key == Secret("${env:INNER}")


def test_two_dollar_signs_are_a_literal_one() -> None:
    assert read_server("model: a$${env:X}b$").config.servers[0].model == "a${env:X}b$"


def test_a_secret_comes_from_a_file_beside_the_configuration(tmp_path: Path) -> None:
    """Without the line break at its end."""
    path = tmp_path / "source.yaml"
    path.write_text(
        "servers: [{name: a, base_url: 'http://192.0.2.1/v1', api_key: '${file:secret.good}'}]\n" + RECEIVERS
    )
    loaded = load(lay_out(tmp_path, path), environ={}, check_urls=accepting)
    assert loaded.config.servers[0].api_key == Secret("s3cr3t-in-a-file")


def test_a_credential_comes_from_the_folder_of_systemd(tmp_path: Path) -> None:
    """Whatever its mode says: systemd guards that folder."""
    (tmp_path / "phone").write_text("json://127.0.0.1/hook\n")
    (tmp_path / "phone").chmod(0o444)
    loaded = read_text(
        "servers: [{name: a, base_url: 'http://192.0.2.1/v1'}]\nreceivers: [{name: b, url: '${credential:phone}'}]\n",
        {"CREDENTIALS_DIRECTORY": str(tmp_path)},
    )
    assert loaded.config.receivers[0].url == Secret("json://127.0.0.1/hook")


@pytest.mark.parametrize(("mode", "taken"), [(0o600, True), (0o644, False)])
def test_run_by_hand_a_credential_comes_from_the_folder_that_the_unit_hands_over(
    tmp_path: Path, mode: int, taken: bool
) -> None:
    """`validate`, `check` and `test-alert` of root see what the service will see."""
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials/phone_url").write_text("json://127.0.0.1/hook\n")
    (tmp_path / "credentials/phone_url").chmod(mode)
    (tmp_path / "config.yaml").write_text(
        "servers: [{name: a, base_url: 'http://192.0.2.1/v1'}]\n"
        "receivers: [{name: b, url: '${credential:secret_phone_url}'}]\n"
    )
    if taken:
        loaded = load(tmp_path / "config.yaml", environ={})
        assert loaded.config.receivers[0].url == Secret("json://127.0.0.1/hook")
    else:
        with pytest.raises(ConfigError, match="chmod 600"):
            load(tmp_path / "config.yaml", environ={})


def test_a_value_of_the_environment_is_used_but_never_quoted() -> None:
    with pytest.raises(ConfigError) as caught:
        read_text(
            "hosts: [{name: '${env:V}', address: '${env:V}', user: '${env:V}', jump: '${env:V}', "
            "agent: true, known_hosts: k}]\n"
            "servers: [{name: a, base_url: 'http://192.0.2.1/v1', hosts: ['${env:V}x'], metrics_url: '${env:V}'}]\n"
            + RECEIVERS,
            {"V": "mute_loggers: mute_loggers/"},
        )
    assert "mute_loggers" not in str(caught.value)
    assert len(caught.value.problems) == 7


def test_plain_text_stays_text_whatever_yaml_makes_of_it() -> None:
    """No Norway problem: `no`, `1e3`, `0123`, `12:30` and dates are taken as they are written where text is wanted."""
    for word in ("no", "on", "1e3", "0123", "12:30:45", "2026-01-01", "0x10", "1_000", "=", "5"):
        assert read_server(f"model: {word}").config.servers[0].model == word


def test_null_means_none_only_where_none_is_a_value() -> None:
    assert read_server("model: null\napi_key: ~").config.servers[0].model is None
    with pytest.raises(ConfigError, match="has no value"):
        read_server("on_demand: null")


def test_extra_body_is_json() -> None:
    given = read_server(
        "extra_body:\n  temperature: 0.5\n  seed: 7\n  stop: ['a', \"5\"]\n  logit_bias: {50256: -100}\n"
        "  user: null\n  deep: {think: false, low: 1e-5, date: 2026-01-01}"
    ).config.servers[0]
    assert given.extra_body == {
        "temperature": 0.5,
        "seed": 7,
        "stop": ["a", "5"],
        "logit_bias": {"50256": -100},
        "user": None,
        "deep": {"think": False, "low": 1e-5, "date": "2026-01-01"},
    }


def test_merge_keys_fill_in_what_is_not_given() -> None:
    loaded = read_text(
        "servers:\n  - name: a\n    base_url: http://192.0.2.1/v1\n    probe: &fast {interval: 30s, timeout: 20s}\n"
        "  - name: b\n    base_url: http://192.0.2.2/v1\n    probe: {<<: *fast, timeout: 10s}\n"
        "  - name: c\n    base_url: http://192.0.2.3/v1\n    probe: *fast\n" + RECEIVERS
    )
    times = [(server.probe.interval_s, server.probe.timeout_s) for server in loaded.config.servers]
    assert times == [(30.0, 20.0), (30.0, 10.0), (30.0, 20.0)]


def test_one_alertmanager_address_needs_no_list() -> None:
    loaded = read_text(
        "servers: [{name: a, base_url: 'http://192.0.2.1/v1'}]\nreceivers: [{name: b, alertmanager: 'http://192.0.2.2:9093'}]\n"
    )
    assert loaded.config.receivers[0].alertmanager == (Secret("http://192.0.2.2:9093"),)
    assert loaded.config.receivers[0].min_severity is Severity.WARN


@pytest.mark.parametrize(
    ("lines", "warning"),
    [
        ("probe: {interval: 5s, timeout: 5s}", "probe.interval: 5s is very short"),
        ("probe: {interval: 30s}", "probe.interval: the default timeout 1m is longer than interval 30s"),
        ("probe: {max_tokens: 500}", "probe.max_tokens: is a lot for a probe"),
        ("verify_tls: false", "verify_tls: anyone on the network can pose as this server"),
    ],
)
def test_what_is_allowed_and_unwise_is_a_warning(lines: str, warning: str) -> None:
    assert warning in warnings_of(read_server(lines))


@pytest.mark.parametrize(
    ("url", "warning"),
    [
        ("http://192.0.2.1:8000", "does not end in /v1"),
        ("http://192.0.2.1:8000/v1/chat/completions", "ends in /chat/completions"),
        ("https://[fd00::1]:8000/v1/", ""),
    ],
)
def test_a_base_url_that_may_be_wrong_is_a_warning(url: str, warning: str) -> None:
    text = warnings_of(read_text(f"servers: [{{name: a, base_url: '{url}'}}]\n" + RECEIVERS))
    assert warning in text
    assert bool(text) == bool(warning)


def test_warnings_that_nobody_hears_are_named() -> None:
    loaded = read_text(
        "servers: [{name: a, base_url: 'http://192.0.2.1/v1'}]\n"
        "receivers: [{name: b, url: 'json://127.0.0.1/', min_severity: page}]\n"
    )
    assert "receivers: warnings reach no receiver, only pages do: generation/a (add a receiver" in warnings_of(loaded)


@pytest.mark.parametrize(
    ("lines", "secret"),
    [
        ("api_key: s3cr3t", True),
        ("api_key: EMPTY", False),
        ("api_key: ${env:DEEPSEEK_API_KEY}", False),
        ("headers: {X-Project: blue}", False),
        ("headers: {X-Api-Key: s3cr3t}", True),
    ],
)
def test_a_file_with_a_secret_in_it_must_be_closed(lines: str, secret: bool) -> None:
    assert read_server(lines, mode=0o100640).config.servers
    if secret:
        with pytest.raises(ConfigError, match="everyone on this machine can read") as caught:
            read_server(lines, mode=0o100644)
        assert "chmod 600 config.yaml" in str(caught.value)
    else:
        assert read_server(lines, mode=0o100644).config.servers


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("json://127.0.0.1:8080/hook", False),
        ("json://127.0.0.1:8080/hook?-method=x", True),
        ("json://user:pass@127.0.0.1/", True),
        ("json://127.0.0.1/hooks/0123456789abcdef", True),
        ("mailto://127.0.0.1:25?from=a@example.org&to=b@example.org", False),
        ("mailto://127.0.0.1:25?pass=abc", True),
        ("discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js", True),
        ("json://[", True),
    ],
)
def test_a_receiver_url_counts_as_secret_by_its_form(url: str, secret: bool) -> None:
    assert may_hold_token(url) is secret


def test_a_key_file_of_another_owner_may_be_read_through_its_group(tmp_path: Path) -> None:
    """That is how root hands a key to a service's group; sshd has the same rule for the keys of others."""
    path = tmp_path / "key"
    path.write_text("x")
    path.chmod(0o640)
    ours = path.stat()
    assert too_open(ours, path) is not None
    numbers = list(ours)
    numbers[4] += 1
    assert too_open(os.stat_result(numbers), path) is None


def test_the_lookup_goes_option_variable_user_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("watchdog.loading.SYSTEM_FILE", tmp_path / "system.yaml")
    monkeypatch.setattr("platformdirs.user_config_dir", lambda name: str(tmp_path / name))
    with pytest.raises(ConfigError, match="no configuration found"):
        locate(None, {})
    (tmp_path / "system.yaml").touch()
    assert locate(None, {}) == tmp_path / "system.yaml"
    user = tmp_path / "inference-watchdog" / "config.yaml"
    user.parent.mkdir()
    user.touch()
    assert locate(None, {}) == user
    assert locate(None, {"INFERENCE_WATCHDOG_CONFIG": "from-variable"}) == Path("from-variable")
    assert locate("from-option", {"INFERENCE_WATCHDOG_CONFIG": "from-variable"}) == Path("from-option")


@pytest.mark.alone
def test_a_thousand_servers_load_in_a_moment() -> None:
    servers = "".join(
        f"  - {{name: s{number}, base_url: 'http://192.0.2.1:{number + 1}/v1', probe: {{timeout: 10s}}}}\n"
        for number in range(1000)
    )
    began = time.perf_counter()
    assert len(read_text("servers:\n" + servers + RECEIVERS).config.servers) == 1000
    assert time.perf_counter() - began < 2.0
