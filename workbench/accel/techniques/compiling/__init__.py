"""torch.compile for one object: functions, optimizer steps, backends."""
