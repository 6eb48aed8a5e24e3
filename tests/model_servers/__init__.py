"""Model services on loopback that answer by a script, so that real agent programs run offline."""
