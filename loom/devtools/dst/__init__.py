"""Deterministic simulation: the real kernel under a seeded clock, faults by schedule, and invariants that must hold."""
