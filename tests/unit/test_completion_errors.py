"""Error bodies as servers send them, each with the reason it stands for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from watchdog.completion.reply import Reply
from watchdog.completion.verdict import End
from watchdog.reasons import ServerReason


def _reason(status: int, body: bytes, content_type: str = "application/json") -> str:
    reply = Reply(status, content_type)
    reply.feed(0.1, body)
    return reply.close(0.2, End.COMPLETE).reason.value


def _error(message: Any, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


_JSON_CASES: list[tuple[int, Any, str]] = [
    # our key
    (401, {"error": "Unauthorized"}, "auth"),
    (401, {"detail": "Invalid API key"}, "auth"),
    (403, {"detail": "Not authenticated"}, "auth"),
    (403, _error("key not allowed to access model. This key can only access models=['a']"), "auth"),
    (400, _error("No connected db.", type="no_db_connection", param=None, code="400"), "auth"),
    (400, _error("Authentication Error, Invalid proxy server token passed", type="auth_error", code="400"), "auth"),
    (422, {"detail": "Missing API key"}, "auth"),
    # the model
    (404, {"object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404},
     "unknown_model"),
    (404, {"error": "model 'x' not found, try pulling it first"}, "unknown_model"),
    (404, _error("model \"x\" not found, try pulling it first", type="api_error"), "unknown_model"),
    (404, _error("The model `gpt-x` does not exist or you do not have access to it.", code="model_not_found"),
     "unknown_model"),
    (400, _error({"error": "Invalid model name passed in model=x. Call `/v1/models` to view available models."},
                 type="None", param="None", code="400"), "unknown_model"),
    (400, _error("/chat/completions: Invalid model name passed in model=x", type="invalid_request_error", code="400"),
     "unknown_model"),
    (400, {"detail": "Server is pinned to model 'a'; requested 'b'."}, "unknown_model"),
    (400, {"detail": "No models are currently loaded."}, "unknown_model"),
    (404, _error("No models loaded. Please load a model in the developer page or use the `lms load` command."),
     "unknown_model"),
    (400, {"error": "could not find real modelID for x"}, "unknown_model"),
    (422, {"detail": "Model x is not loaded"}, "unknown_model"),
    (500, _error("The model `x` does not exist.", code=500), "server_error"),  # its own trouble, not our name for it
    (501, {"error": "model 'x' not found"}, "bad_request"),
    # our request
    (400, _error("This model's maximum context length is 16 tokens. However, you requested 20.", code=400),
     "bad_request"),
    (400, _error("request (900 tokens) exceeds the available context size", type="exceed_context_size_error", code=400),
     "bad_request"),
    (400, _error("Unsupported value: 'temperature' does not support 0 with this model.", code="unsupported_value"),
     "bad_request"),
    (422, {"error": "Input validation error: `inputs` must have less than 16 tokens", "error_type": "validation"},
     "bad_request"),
    (422, {"detail": [{"loc": ["body", "n"], "msg": "field required", "type": "value_error.missing"}]}, "bad_request"),
    (400, {"detail": "Unexpected keys in the request: {'nonce'}"}, "bad_request"),
    (413, {"error": "payload too large"}, "bad_request"),
    (415, {"detail": "Unsupported media type"}, "bad_request"),
    (501, _error("This server does not support chat completions.", type="not_supported_error", code=501),
     "bad_request"),
    # the path
    (404, {"detail": "Not Found"}, "not_found"),
    (404, _error("File Not Found", type="not_found_error", code=404), "not_found"),
    (404, _error("Invalid URL (POST /v1/v1/chat/completions)", type="invalid_request_error"), "not_found"),
    (404, {"error": "not found"}, "not_found"),
    (405, {"detail": "Method Not Allowed"}, "not_found"),
    (200, {"error": "Unexpected endpoint or method. (POST /chat/completions). Returning 200 anyway"}, "not_found"),
    # mlx-lm: 404 with a string for any failure
    (404, {"error": "Repository Not Found for url: https://huggingface.co/api/models/x"}, "server_error"),
    (404, {"error": "'NoneType' object has no attribute 'shape'"}, "server_error"),
    (404, {"error": "Model type qwen9 not supported."}, "server_error"),
    (404, {"error": "[Errno 2] No such file or directory: '/m/config.json'"}, "server_error"),
    # loading
    (503, _error("Loading model", type="unavailable_error", code=503), "loading"),
    (503, {"error": "Model x is currently loading", "estimated_time": 20.0}, "loading"),
    (503, {"object": "error", "message": "Server is warming up", "type": "ServiceUnavailable", "code": 503}, "loading"),
    (503, {"detail": "A model is being loaded. Try again later."}, "loading"),
    # at capacity
    (429, {"error": "Model is overloaded", "error_type": "overloaded"}, "busy"),
    (429, _error("litellm.RateLimitError: RateLimitError: OpenAIException - slow down", code="429"), "busy"),
    (503, _error("server busy, please try again.  maximum pending requests exceeded", type="api_error"), "busy"),
    (503, {"object": "error", "message": "The request queue is full.", "type": "x", "code": 503}, "busy"),
    (529, _error("Overloaded", type="overloaded_error"), "busy"),
    # the engine
    (500, _error("EngineCore encountered an issue. See stack trace (above) for the root cause.", code=500),
     "engine_dead"),
    (500, {"object": "error", "message": "EngineDeadError", "type": "InternalServerError", "code": 500}, "engine_dead"),
    (500, {"error": "llama runner process has terminated: signal: killed"}, "engine_dead"),
    (500, _error("llama runner process no longer running: -1", type="api_error"), "engine_dead"),
    (500, _error("Background loop has errored already.", code=500), "engine_dead"),
    (400, {"error": "The model has crashed without additional information. (Exit code: null)"}, "engine_dead"),
    (503, {"error": "generation thread is dead"}, "engine_dead"),
    # other server errors
    (424, {"error": "Request failed during generation: Server error: CUDA out of memory", "error_type": "generation"},
     "server_error"),
    (500, {"error": "Incomplete generation", "error_type": "incomplete_generation"}, "server_error"),
    (500, _error("model requires more system memory (20 GiB) than is available (8 GiB)"), "server_error"),
    (500, _error("Internal server error", type="InternalServerError", code=500), "server_error"),
    (500, {"detail": "list index out of range"}, "server_error"),
    (500, _error("error loading model: unexpected end of file"), "server_error"),
    # gateways
    (429, _error("No deployments available for selected model, Try again in 5 seconds.", type="None", code="429"),
     "upstream_down"),
    (500, _error("litellm.InternalServerError: OpenAIException - Connection error.", type=None, code="500"),
     "upstream_down"),
    (503, _error("litellm.ServiceUnavailableError: OpenAIException - upstream said no", code="503"), "upstream_down"),
    (503, {"error": "No available workers (all circuits open or unhealthy)"}, "upstream_down"),
    (502, {"error": "unable to start process: upstream command exited prematurely"}, "upstream_down"),
    (408, _error("litellm.Timeout: APITimeoutError - Request timed out.", type=None, code="408"), "gateway_timeout"),
    (500, _error("litellm.Timeout: Connection timed out after 60.0 seconds", code="500"), "gateway_timeout"),
    (503, {"message": "failure to get a peer from the ring-balancer"}, "upstream_down"),
    (503, {"error": "unhealthy", "error_type": "healthcheck"}, "engine_dead"),
    (404, {"message": "no Route matched with those values"}, "not_found"),
    (504, {"message": "Endpoint request timed out"}, "gateway_timeout"),
    # under HTTP 200
    (200, _error("Bad key", type="authentication_error", code=401), "auth"),
    (200, _error("boom", type="BadRequestError", code=400), "bad_request"),
    (200, {"object": "error", "message": "x", "type": "InternalServerError", "code": 500}, "server_error"),
    (200, {"detail": "Internal failure"}, "server_error"),
    (200, _error("slow down", code="429"), "busy"),
    (200, _error("slow down", code="²²²"), "server_error"),  # digits to Python, and yet no number
    (200, {"message": "Invalid API key"}, "auth"),
    (200, {"message": "Model is loading"}, "loading"),
    (200, {"message": "Welcome"}, "malformed"),
    (200, {"error": None, "choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}, "ok"),
    (200, {"error": {}, "choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}, "ok"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "reason"), _JSON_CASES)
def test_a_json_error_body_gives_its_reason(status: int, body: Any, reason: str) -> None:
    assert _reason(status, json.dumps(body).encode()) == reason


_TEXT_CASES: list[tuple[int, str, str]] = [
    (500, "Internal Server Error", "server_error"),
    (500, "", "server_error"),
    (401, "", "auth"),
    (403, "<html><title>Just a moment...</title></html>", "auth"),
    (404, "404 page not found", "not_found"),
    (404, "<html><h1>Not Found</h1></html>", "not_found"),
    (404, "", "not_found"),
    (405, "<html><h1>405 Not Allowed</h1></html>", "not_found"),
    (501, "<html><p>Error code explanation: 501 - Server does not support this operation.</html>", "not_found"),
    (413, "<html><h1>413 Request Entity Too Large</h1></html>", "bad_request"),
    (502, "", "upstream_down"),
    (503, "<html><h1>503 Service Temporarily Unavailable</h1></html>", "upstream_down"),
    (503, "<html><h1>503 Service Unavailable</h1>\nNo server is available to handle this request.</html>",
     "upstream_down"),
    (503, "no healthy upstream", "upstream_down"),
    (503, "upstream connect error or disconnect/reset before headers. reset reason: connection failure",
     "upstream_down"),
    (503, "LLM is unavailable. Please check the server logs for more details.", "engine_dead"),
    (504, "upstream request timeout", "gateway_timeout"),
    (504, "", "gateway_timeout"),
    (520, "<html><title>Web server is returning an unknown error</title></html>", "upstream_down"),
    (521, "error code: 521", "upstream_down"),
    (523, "error code: 523", "upstream_down"),
    (524, "error code: 524", "gateway_timeout"),
    (530, "error code: 1033", "upstream_down"),
    (301, "", "not_found"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "reason"), _TEXT_CASES)
def test_a_body_that_is_no_json_gives_its_reason(status: int, body: str, reason: str) -> None:
    assert _reason(status, body.encode(), "text/html" if body.startswith("<") else "text/plain") == reason


@pytest.mark.parametrize(
    ("reason", "statuses"),
    [
        ("bad_request", (400, 406, 411, 412, 413, 414, 415, 418, 422, 431)),
        ("auth", (401, 402, 403, 407)),
        ("not_found", (300, 301, 302, 303, 307, 308, 399, 404, 405, 410, 501)),
        ("gateway_timeout", (408, 499, 504, 524, 598, 599)),
        ("server_error", (424, 500, 505, 507, 508, 511)),
        ("loading", (425,)),
        ("busy", (429, 529)),
        ("upstream_down", (502, 503, 520, 521, 522, 523, 525, 526, 527, 530)),
    ],
)
def test_a_status_alone_gives_its_reason(reason: str, statuses: tuple[int, ...]) -> None:
    assert {status: _reason(status, b"") for status in statuses} == dict.fromkeys(statuses, reason)


def test_an_error_inside_a_choice_is_an_error_although_the_status_says_200() -> None:
    failed = {"finish_reason": "error", "message": {"content": ""}, "error": {"code": 502, "message": "reset"}}
    assert _reason(200, json.dumps({"choices": [failed]}).encode()) == "upstream_down"
    assert _reason(200, b'{"choices": [{"message": {"content": "ok"}, "error": null}], "error": null}') == "ok"


def test_a_dead_engine_is_told_under_any_status() -> None:
    for status in (200, 400, 404, 500, 503):
        assert _reason(status, b'{"error": {"message": "Background loop has errored already."}}') == "engine_dead"
    assert _reason(401, b'{"error": {"message": "EngineDeadError"}}') == "auth"


def test_lack_of_memory_is_no_dead_engine() -> None:
    assert _reason(500, b'{"error": {"message": "CUDA error: out of memory"}}') == "server_error"


@pytest.mark.parametrize("line", ['error: {"code": 500, "message": "x"}', '{"error": {"message": "x"}}'])
def test_an_error_without_data_in_an_open_stream_is_an_error(line: str) -> None:
    start = 'data: {"id": "c", "choices": [{"delta": {"role": "assistant"}}]}\n\n'
    assert _reason(200, f"{start}{line}\n\n".encode(), "text/event-stream") == "server_error"


def test_a_refused_max_tokens_is_noticed() -> None:
    body = _error("Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.")
    reply = Reply(400, "application/json")
    reply.feed(0.1, json.dumps(body).encode())
    judged = reply.close(0.2, End.COMPLETE)
    assert judged.reason.value == "bad_request"
    assert judged.wants_other_limit


def test_the_detail_is_one_printable_line() -> None:
    reply = Reply(500, "application/json")
    reply.feed(0.1, json.dumps({"error": "a\nb\x1b[31mred\u202e" + "x" * 5000}).encode())
    detail = reply.close(0.2, End.COMPLETE).detail
    assert detail.startswith("a b [31mred")
    assert detail.isprintable()
    assert len(detail) <= 300


def test_the_limits_of_a_queue_are_busy() -> None:
    for words in ("The engine has reached its prefill token backlog limit", "The request queue is full."):
        assert _reason(503, json.dumps(_error(words, code=503)).encode()) == "busy"


def test_a_redirect_to_a_login_page_is_our_key_and_any_other_a_wrong_address() -> None:
    for location, reason in (
        ("/login?next=/v1/chat/completions", "auth"),
        ("https://sso.example/oauth2/start", "auth"),
        ("https://llm.example/v1/chat/completions", "not_found"),
    ):
        assert Reply(302, location=location).close(0.1, End.COMPLETE).reason.value == reason


@pytest.mark.parametrize(
    ("statuses", "reason"),
    [
        ((401, 402, 403, 407), ServerReason.AUTH),
        ((405, 410), ServerReason.NOT_FOUND),
        ((425,), ServerReason.LOADING),
        ((429, 529), ServerReason.BUSY),
        ((502, 520, 521, 522, 523, 525, 526, 527, 530), ServerReason.UPSTREAM_DOWN),
        ((408, 499, 504, 524, 598, 599), ServerReason.GATEWAY_TIMEOUT),
        ((424, 500, 519, 528, 531), ServerReason.SERVER_ERROR),
    ],
)
def test_a_status_without_words_is_its_reason(statuses: tuple[int, ...], reason: ServerReason) -> None:
    for status in statuses:
        reply = Reply(status, "application/json")
        reply.feed(0.5, b"{}")
        assert reply.close(0.6, End.COMPLETE).reason is reason, status
