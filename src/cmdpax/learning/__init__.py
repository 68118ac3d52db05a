"""Policies learned from samples of a simulator."""
