"""The sequential executor: KTIR, ScheduleIR after any pass, and KTDFLow.

All compute tiles (cores) run in lockstep, as one NumPy operation where they do the same; every operation of
a tile happens in program order.  Nothing here knows of time, queues that fill up, or signals.
"""
