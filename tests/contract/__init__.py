"""One suite that every engine passes: `hmz_mp/engines/protocol.py` says what it holds them to."""
