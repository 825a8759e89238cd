CREATE TABLE IF NOT EXISTS authors (id bigserial PRIMARY KEY, name text NOT NULL);
CREATE TABLE IF NOT EXISTS books (id bigserial PRIMARY KEY, author_id bigint NOT NULL REFERENCES authors, title text NOT NULL);
