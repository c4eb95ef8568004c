"""inference-watchdog: wakes you when a self-hosted LLM server stops generating."""
