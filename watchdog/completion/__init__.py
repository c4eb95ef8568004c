"""What a chat completion proves: bytes and their times in, a judgement out. No IO, no clock.

Start with `reply.Reply`: `open` it with the status, `feed` it bytes, `close` it, and read the `verdict.Judgement`.
Facts behind every rule: the reply shapes, error bodies and traps of the engines as they are served in the field.
"""
