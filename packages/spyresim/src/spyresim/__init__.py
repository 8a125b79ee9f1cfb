"""Functional and timed simulator for KTIR, ScheduleIR, DataflowIR and SpyreCode."""
