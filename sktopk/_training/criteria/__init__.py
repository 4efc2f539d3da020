"""Losses as a training meets them: batch after batch, with a memory."""
