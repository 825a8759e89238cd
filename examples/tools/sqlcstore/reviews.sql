CREATE TABLE IF NOT EXISTS reviews (id bigserial PRIMARY KEY, author_id bigint NOT NULL REFERENCES authors, body text NOT NULL);
