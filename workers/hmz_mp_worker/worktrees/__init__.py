"""Turns in git worktrees: a worktree for each turn that runs, used again by later ones."""
