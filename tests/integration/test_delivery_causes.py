"""A delivery that fails on the road says why in plain words: real TLS servers and mail servers with real faults."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiosmtpd.smtp import SMTP, AuthResult

from tests.support.certificate import self_signed
from tests.support.receivers import SmtpSink
from tests.unit.test_services import message
from watchdog.config import ReceiverSettings, Secret
from watchdog.model import Outcome, Text
from watchdog.notify import build, url_problem


async def outcome(url: str) -> Outcome:
    receiver = build(ReceiverSettings(name="hook", url=Secret(url), timeout_s=10))
    return await receiver.send(message("page"), Text("title", "body"), 0.0)


@asynccontextmanager
async def listening(tls: ssl.SSLContext | None = None, says: bytes = b"") -> AsyncIterator[int]:
    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]


def context(pair: tuple[Path, Path]) -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*pair)
    return tls


async def test_a_self_signed_certificate_is_called_that(tmp_path: Path) -> None:
    async with listening(context(self_signed(tmp_path))) as port:
        assert (await outcome(f"jsons://127.0.0.1:{port}/hook")).detail == "its certificate is self-signed"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"ends_in_days": -1}, "its certificate has expired"),
        ({"address": "192.0.2.1"}, "its certificate is for another address"),
    ],
)
async def test_an_expired_certificate_and_one_for_another_name_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: dict[str, object], words: str
) -> None:
    pair = self_signed(tmp_path, **fault)  # type: ignore[arg-type]  # one of its keywords
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(pair[0]))
    async with listening(context(pair)) as port:
        assert (await outcome(f"jsons://127.0.0.1:{port}/hook")).detail == words


async def test_a_port_without_tls_a_dead_port_and_an_unknown_name_are_told_apart() -> None:
    async with listening(says=b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert (
            await outcome(f"jsons://127.0.0.1:{port}/hook")
        ).detail == "what listens on that port does not speak TLS"
    assert (await outcome(f"json://127.0.0.1:{port}/hook")).detail == "nothing listens on that port"
    assert (await outcome("json://no-such-host.invalid/hook")).detail == "its name is not known: no such address"


async def test_a_refusal_is_told_in_the_words_of_the_service_not_in_those_of_the_library() -> None:
    answer = b'{"description": "chat not found"}'
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % len(answer)
    async with listening(says=head + answer) as port:
        found = await outcome(f"json://127.0.0.1:{port}/hook")
    assert found.detail == 'HTTP 400 Bad Request: {"description": "chat not found"}'
    async with listening(says=b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n") as port:
        assert (await outcome(f"json://127.0.0.1:{port}/hook")).detail == "HTTP 503 Service Unavailable"


def mail(port: int, mode: str, login: str = "") -> str:
    return f"mailto://{login}127.0.0.1:{port}?from=watchdog@example.org&to=me@example.org&mode={mode}"


async def test_a_mail_server_without_starttls_and_with_a_bad_certificate_and_a_refused_login_are_told_apart(
    tmp_path: Path,
) -> None:
    async with SmtpSink() as sink:
        found = await outcome(mail(sink.port, "starttls"))
        assert found.detail.startswith("it offers no STARTTLS")
    tls = context(self_signed(tmp_path))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(SmtpSink(), loop=loop, tls_context=tls), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert (await outcome(mail(port, "starttls"))).detail == "its certificate is self-signed"

    def refuse(*_arguments: object) -> AuthResult:
        return AuthResult(success=False, handled=False)

    server = await loop.create_server(
        lambda: SMTP(SmtpSink(), loop=loop, authenticator=refuse, auth_require_tls=False), "127.0.0.1", 0
    )
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert (await outcome(mail(port, "insecure", "me:wrong@"))).detail == "it refuses the user name or password"


@pytest.mark.parametrize("to", ["notanaddress", "a,b@example.org", "me@example.org;you"])
def test_an_address_that_apprise_would_drop_is_refused(to: str) -> None:
    problem = url_problem(f"mailtos://user:pass@mail.example.org?to={to}")
    assert problem is not None
    assert "is not an e-mail address" in problem


def test_several_good_addresses_are_taken() -> None:
    assert url_problem("mailtos://user:pass@mail.example.org?to=a@example.org,b@example.org") is None
    assert url_problem("mailtos://user:pass@mail.example.org") is None
