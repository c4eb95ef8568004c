"""The status page, /healthz, /api/status, the badge, /metrics and /probe. Loaded only when `web:` is configured."""
