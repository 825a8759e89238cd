-- +goose Up
CREATE TABLE authors (id bigserial PRIMARY KEY, name text NOT NULL);
CREATE TABLE books (id bigserial PRIMARY KEY, author_id bigint NOT NULL REFERENCES authors, title text NOT NULL);

-- +goose StatementBegin
CREATE FUNCTION book_count(author bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN (SELECT count(*) FROM books WHERE author_id = author);
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION book_count;
DROP TABLE books;
DROP TABLE authors;
