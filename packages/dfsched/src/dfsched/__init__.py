"""Dataflow scheduler: KTIR to ScheduleIR to DataflowIR to SpyreCode for any described device."""
