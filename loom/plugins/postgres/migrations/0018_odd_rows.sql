-- What can be searched for of a row whose body Postgres would read another way than Loom does, or not at all, as JSON: one that is no UTF-8, say.
-- Of all others, and of those that an earlier Loom has put, it is none, and the body is read.
ALTER TABLE loom.model_rows ADD COLUMN odd text;
