-- +goose NO TRANSACTION
-- +goose Up
CREATE INDEX CONCURRENTLY reviews_by_author ON reviews (author_id);

-- +goose Down
DROP INDEX CONCURRENTLY reviews_by_author;
