"""Words by which servers say what is wrong. Each pattern names the engines it was seen on.

All are matched against lower-case text. They are written for search in a few kilobytes, with bounded gaps.
"""

from __future__ import annotations

import re

STILL_LOADING = re.compile(
    # llama.cpp "Loading model", TGI and SGLang warm-up, llama-swap, Hugging Face "is currently loading"
    r"\bloading (the )?(model|weights)\b|\b(is|are|still|currently) loading\b|\bbeing loaded\b"
    r"|warming[ -]?up|not (yet )?ready|(is|still) (starting|initiali[sz]ing)|starting up|model_loading"
)
LOAD_FAILED = re.compile(r"(fail|failed|failure|error|unable|could not|cannot|can't)( to| while| when|:)? (re)?load")
ENGINE_SURELY_DEAD = re.compile(
    # Said under any status: vLLM v0 repeated "Background loop has errored already." as 400. A CUDA or HIP error other
    # than lack of memory leaves the process without a usable device; SGLang and TensorRT-LLM pass it on as it is.
    r"enginecore|engine_?dead|asyncenginedead|background loop (has |is )?(already )?(errored|not running)"
    r"|\b(cuda|hip|nccl|rocm) (driver |runtime |internal )?error(?!.{0,20}out of memory)|device-side assert"
    r"|illegal memory access|unspecified launch failure|cublas_status_(?!alloc)\w+|nccl\w*(error|timeout)"
    r"|collective operation timeout"
    r"|(scheduler|detokenizer|engine|executor)( \w+){0,2} (hit|encountered|raised|returned) (an? )?(exception|error)"
    r"|engine( loop| core| process| thread)?( has| is|'s)?( already)? (died|dead|panicked|crashed)\b"
    r"|engine iteration timed out"
    r"|\brpc call to .{1,80} timed out"
)
GPU_OUT_OF_MEMORY = re.compile(
    # PyTorch through any engine, SGLang "Decode out of memory", llama.cpp
    r"\b(cuda|hip|gpu|device|decode|prefill|vram)\b.{0,30}out of memory|\boutofmemoryerror|kv cache is full"
)
"""The engine's trouble, also where it is said with the code of a bad request."""
REQUEST_FAULT = re.compile(
    r"\b(invalid|unsupported|unknown|missing|required|unexpected|not supported|not allowed|not permitted)\b"
    r"|\b(must|should|cannot|can't) (not )?be\b|validation|max_(completion_)?tokens|chat[ _]template"
    r"|context (length|window)"
    r"|\bparameters?\b|too (long|large|many tokens)|longer than"
)
"""What a server says that refuses the request itself, also when it had opened the stream first."""
ENGINE_DEAD = re.compile(
    # vLLM EngineCore / EngineDeadError / MQEngineDeadError, SGLang scheduler, TRT-LLM, Ollama runner, LM Studio
    r"\bhealthcheck\b|llm is unavailable"
    r"|\bengine\b.{0,40}\b(died|dead|stopped|crashed|exited|not alive|terminated|is not running|unavailable|shut ?down)"
    r"|\b(runner|worker|scheduler|detokenizer|executor|generation|generator|inference|model)( \w+){0,2}"
    r" (has |was |is |have )?(been )?(unexpectedly )?"
    r"(terminated|died|dead|crashed|not alive|no longer (running|alive)|stopped)\b"
    r"|actor ?(died|dead)|executor (has |is )?(failed|shut ?down)"
    r"|\bthread\b.{0,30}\b(died|dead|not alive|crashed|stopped)"
)
_BACKENDS = r"(deployment|upstream|backend|worker|server|endpoint|instance|replica|host|responder|node|peer|provider)"
TUNNEL_DOWN = re.compile(r"err_ngrok_\d+|\b(tunnel|endpoint) .{0,80}\bis offline|\btunnel .{0,80}not found")
UPSTREAM_DOWN = re.compile(
    # LiteLLM, Envoy, HAProxy, SGLang router, llama-swap, AIBrix, Cloudflare, API gateways
    r"no (healthy|available|ready|live|active|running) (\w+ )?" + _BACKENDS + r"s?\b"
    r"|no " + _BACKENDS + r"s? (is |are |was |were )?(available|found|ready|healthy|registered|alive|online)"
    r"|could not (establish|open) (a )?connection|proxy error|failure to get a peer"
    r"|connection error|apiconnectionerror|cannot connect|can't connect|could not connect|failed to connect"
    r"|connect error|connection (refused|reset|aborted)|econnrefused|econnreset|all connection attempts failed"
    r"|upstream connect|unable to (reach|connect|start process)|server disconnected|bad gateway"
    r"|upstream (command |process |server )?(\w+ )?(exited|is down|unavailable|unreachable|prematurely)"
    r"|litellm\.serviceunavailableerror|exited prematurely|name or service not known|nodename nor servname"
    r"|no route to host|getting pods for model"
)
TIMED_OUT = re.compile(
    r"litellm\.timeout|apitimeouterror|gateway[ -]?time-?out|upstream (request |response )?time"
    r"|request timed? ?out|read time-?out|readtimeout|deadline exceeded|timeout error|connection timed out"
    r"|timed out (after|waiting for (a )?response)"
)
AT_CAPACITY = re.compile(
    # TGI, Ollama "maximum pending requests exceeded", SGLang "queue is full", uvicorn and gateways
    r"overload|server (is )?(too )?busy|\bbusy\b|too many|at (full |max\w* )?capacity|capacity (exceeded|reached)"
    r"|queue (is |was )?(full|limit)|(exceed\w*|max\w*|full).{0,30}queue|pending requests|rate.?limit|throttl"
    r"|no (available|free|idle) slots?|no slots? (available|free)|slots? (are|is) (busy|full)"
    r"|concurren\w+ (limit|request)|request limit|back-?pressure|higher[ -]priority request"
    r"|\bsaturated\b|backlog limit|backlog (is )?full"
)
NO_KEY = re.compile(
    r"(invalid|incorrect|missing|wrong|no|expired|malformed)[ _](api|auth\w*|access|bearer|x-api)[ _-]?"
    r"(key|token|header)?\b|api[ _-]?key (is |was )?(required|missing|invalid|not)|\bunauthori[sz]ed\b"
    r"|not authenticated|authentication|no connected db|invalid token|permission_?denied"
)
NOT_THIS_MACHINE = re.compile(
    # nginx and HAProxy access rules, Envoy, Cloudflare 1020, gateways with a list of addresses
    r"\bip\b.{0,40}\b(not|den|block|forbid|restrict)|\b(not|den\w+|block\w*|forbid\w*)\b.{0,40}\bip\b"
    r"|\b(allow|white|deny|block|black)[ _-]?list|rbac: access denied|administrative rules"
    r"|\bnot allowed (from|to access) (this|your)|you have been blocked|source address"
)
TLS_PORT = re.compile(
    # nginx, Go, Apache, HAProxy and Caddy to a plain request on a port that speaks TLS
    r"plain http request was sent to https port|sent an http request to an https server"
    r"|speaking plain http to an ssl|http request (to|on) (an )?https|requires (https|tls)\b"
)
LIMITED_BY_NGINX = re.compile(r"503 service temporarily unavailable.{0,80}nginx/\d", re.DOTALL)
"""What nginx itself says under 503: its limit of requests or connections; for an upstream that is down it says 502.

Without its version it may be an ingress that has no server to send to.
"""
SOUNDS_LIKE_ERROR = re.compile(
    r"error|exception|fail|crash|panic|\b(died|dead|gone|lost|denied|refused|invalid|must|cannot|can't|unable)\b"
    r"|could not|not (found|available|supported|allowed)|unavailable|out of memory|timed? ?out|overload|\b(busy|full)\b"
)
"""What a server that writes plain words into a stream means by them; others are a sign of life."""
NO_SUCH_MODEL = re.compile(
    # vLLM, Ollama, LMDeploy, Triton, LiteLLM, transformers serve, tabbyAPI, LM Studio, llama-swap, OpenAI
    r"model_?not_?found|unknown_model|invalid_model|deployment_?not_?found|\bdeployment.{0,60} does not exist"
    r"|\b(unknown|invalid|no such|unrecogni[sz]ed|nonexistent) model\b(?! type)"
    r"|\bmodels?\b(?! type)[^.]{0,60}?\b(does not|doesn't|do not|did not|not) exist"
    r"|\bmodels?\b(?! type).{0,120}?\b(not found|not_found|could not be found|is unknown|not available|unavailable)"
    r"|\bmodels?\b(?! type).{0,120}?\b(is|are|was|currently) (not |un)(served|loaded|registered|recogni[sz]ed|valid"
    r"|deployed|present|in the|supported by this server)"
    r"|no models? (is |are )?(currently )?(loaded|named|called|found|matching|available)|server is pinned"
    r"|(could not|cannot|can't|unable to) find .{0,40}\bmodel"
    r"|no (\w+ )?(router|handler|" + _BACKENDS + r")s?( found)? for .{0,30}model|no endpoints found for\b"
    r"|\bmodels?\b.{0,60} (has|have) not been (loaded|deployed|registered|found)"
    r"|\bonly .{1,120} allowed now, your model"  # FastChat
    r"|model (is |was |has been )?unloaded|not a valid model (id|name)|deployments? for model|try pulling"
)
NONE_LOADED = re.compile(
    r"no models? (is |are )?(currently )?loaded|model_?not_?found|\bmodel\b.{0,80}? does not exist"
)
HUB_FAILURE = re.compile(
    # mlx-lm answers 404 with a string for any failure to load or to generate
    r"repository not found|huggingface\.co|hf\.co/|errno|traceback|no such file|client error"
)
NO_SUCH_PATH = re.compile(
    r"\bendpoint|\broutes?\b|invalid url|unknown (url|path)|cannot (post|get)|page not found|^\W*not found\W*$"
    r"|file not found|method not allowed|unsupported method|no such (path|url)|no static resource|invalid path"
    r"|404 not found|path not found|requested url"
)
TOO_LONG = re.compile(
    r"exceed_context|context_length_exceeded|exceeds? the (available |maximum )?context (size|length|window)"
)
"""Our request, whatever the status: llama.cpp said so under 500 for a time."""
OTHER_LIMIT = re.compile(r"max_completion_tokens")
NO_CAUSE_GIVEN = re.compile(r"service (is )?(temporarily |currently )?unavailable|\btemporarily unavailable")
"""Under 503: all that is said is that what should answer does not."""
