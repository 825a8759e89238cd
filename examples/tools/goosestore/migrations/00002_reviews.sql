-- +goose Up
CREATE TABLE reviews (id bigserial PRIMARY KEY, author_id bigint NOT NULL REFERENCES authors, body text NOT NULL);

-- +goose Down
DROP TABLE reviews;
