-- A consumed request whose body was moved to an archive. Its row stays for its key, and the last of a lane for its number.
ALTER TABLE loom.requests ADD COLUMN trimmed boolean NOT NULL DEFAULT false;
