-- When an application's own worker may take the operation: a queue per account and tool, apart from what time does.
ALTER TABLE counterfoil_operations ADD COLUMN work_at INTEGER;
CREATE INDEX counterfoil_operations_work ON counterfoil_operations (account, tool, work_at, id)
    WHERE work_at IS NOT NULL;
