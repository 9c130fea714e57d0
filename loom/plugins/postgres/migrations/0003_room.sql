-- soft: room for updates in the pages of loom.executions
-- The row of an execution changes with every append; with room in its page, that touches no index.
ALTER TABLE loom.executions SET (fillfactor = 70);
