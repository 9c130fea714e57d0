-- What can be searched for of a row whose body SQLite would read another way than Loom does, as JSON: one with a name twice, say. Of all others,
-- and of those that an earlier Loom has put, it is none, and the body is read.
ALTER TABLE model_rows ADD COLUMN odd TEXT;
