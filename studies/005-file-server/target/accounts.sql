-- The table, and the accounts user0 to user255, whose passwords are “secret”: made by the engine of sequences.
CREATE TABLE IF NOT EXISTS users (name VARCHAR(64) PRIMARY KEY, password CHAR(64) NOT NULL) ENGINE=InnoDB CHARACTER SET ascii;
INSERT INTO users (name, password) SELECT CONCAT('user', seq), SHA2(CONCAT('user', seq, ':secret'), 256) FROM seq_0_to_255;
