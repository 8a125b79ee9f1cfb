"""What the back-end passes are made of: ScheduleIR to KTDFLow to DataflowIR."""
