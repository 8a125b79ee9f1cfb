"""Runtime for SpyreCode: prepare once, launch often."""
