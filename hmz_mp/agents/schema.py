"""What ``schema=`` takes, and answers as that type: the workers' own, since they ask again."""

from __future__ import annotations

from hmz_mp_worker.backends.schemas import NotOfSchema, decoder_for

__all__ = ["NotOfSchema", "decoder_for"]
