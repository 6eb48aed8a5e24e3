"""What twelve checks cost by each way of asking for them: tokens, model turns, time."""
