"""What stands in for agents in tests of the built-in flows, as the text of a file of functions."""

AGENTS = '''
import os
from pathlib import Path

def look(prompt, path, item_id):
    """A finding by what the file says."""
    text = Path(os.fsdecode(path)).read_text()
    if "raises" in text:
        raise OSError("cannot look")
    found = {
        "item_id": "other.py" if "other" in text else item_id,
        "status": "failed" if "bad" in text else "needs_review" if "odd" in text else "ok",
        "finding": f"{text.strip()} ({len(prompt)} letters)" if "count" in text else text.strip(),
        "evidence_ref": f"{item_id}:1",
        "confidence": "high",
    }
    return {} if "no finding" in text else found

def measure(path):
    text = Path(os.fsdecode(path)).read_text()
    if "raises" in text:
        raise OSError("cannot measure")
    return {"lines": text.count("\\n"), "deep": {"letters": len(text)}}

def told(prompt, item_id):
    """A finding that says what was asked."""
    lines = [line for line in prompt.splitlines() if line][:3]
    return {"item_id": item_id, "status": "ok", "finding": " | ".join(lines),
            "evidence_ref": "", "confidence": "low"}

def record(prompt, item_id):
    return {"item_id": item_id, "status": "ok", "finding": prompt.splitlines()[2],
            "evidence_ref": "", "confidence": "high"}

def length(prompt):
    return {"length": len(prompt)}
'''
